"""Expression filters: parsed (`syntax`), typed and compiled (`compiled`), evaluated as the server would."""
