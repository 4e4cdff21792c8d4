"""What methods share in looking for good selections: neighbourhoods, memory, threads."""
