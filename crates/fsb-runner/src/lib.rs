//! From a plan to blocks and trials; the agent and its protocol.
