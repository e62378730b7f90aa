"""One folder per engine; each is imported only by those who have the engine installed."""
