"""The ops. Declarations, creation and batching rules here, families in subfolders."""
