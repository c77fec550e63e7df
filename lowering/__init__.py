"""The Inductor side: candidates, their template buffer, scheduling, generated code. Imported at the first compile."""
