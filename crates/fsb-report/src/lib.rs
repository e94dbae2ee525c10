//! What a run found, assembled once and shown in many forms.
