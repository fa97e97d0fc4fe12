"""The models of the demo repository, one module per family; scripts/make_models.py calls them."""
