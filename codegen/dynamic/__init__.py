"""Programs for any size, and the specializations of a program by sizes."""
