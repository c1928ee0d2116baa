"""The objects that a traced function can reach: access paths, snapshots, mutations and recipes to
rebuild them."""
