"""What is counted where it happens: plain numbers that broker/monitoring reads when somebody asks."""
