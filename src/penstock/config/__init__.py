"""What the user has configured: the project file, the settings and which of them wins."""
