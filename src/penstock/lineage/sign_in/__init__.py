"""Who asks the lineage service: tokens, passwords, and an OpenID provider."""
