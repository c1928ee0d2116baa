"""Serves language models: many texts side by side, by OpenAI's interface."""
