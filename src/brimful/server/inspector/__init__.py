"""What the inspector asks: contexts and why they are as they are, what would be otherwise, and what is kept."""
