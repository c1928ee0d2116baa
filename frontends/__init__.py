"""Front ends: namespaces for programs written for other libraries."""
