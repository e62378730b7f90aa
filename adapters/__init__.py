"""One folder per engine; each is imported only where the engine is installed."""
