"""The engines that move arrays between ranks."""
