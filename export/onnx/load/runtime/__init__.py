"""What loaded models run with: values, limits, the table of operators."""
