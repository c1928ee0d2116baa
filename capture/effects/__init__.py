"""Effect calls: calls of `print`, logging and clocks, which a replay performs again."""
