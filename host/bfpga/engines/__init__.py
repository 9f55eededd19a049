"""One module per engine: bit-exact numpy model, cycle model, resource model, descriptor layout."""
