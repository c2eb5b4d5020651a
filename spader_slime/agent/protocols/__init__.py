"""How the model writes its actions, and how it is answered. Use `spader_slime.agent.protocol`."""
