"""Expression filters: read (`syntax`), typed and compiled (`compiled`), evaluated as the server would."""
