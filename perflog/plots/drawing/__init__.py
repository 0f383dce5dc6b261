"""What plots are drawn with: figures and sketches, panels, bars, heatmaps, files."""
