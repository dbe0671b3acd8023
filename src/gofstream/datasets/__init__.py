"""Data to try the library on: EXPO-1D with its ideal test, and files of muon pairs."""
