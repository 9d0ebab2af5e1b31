"""The administrative client."""
