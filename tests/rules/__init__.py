"""The rules that machines hold: layers, mirror, statements, schema, names, papers."""
