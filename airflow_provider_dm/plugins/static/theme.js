// Airflow's own choice of theme, before the first paint; "system" and no choice leave it to prefers-color-scheme.
(() => {
  const apply = () => {
    let choice = null;
    try {
      choice = localStorage.getItem("theme");
    } catch {
      // Storage may be closed to frames.
    }
    if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
    else delete document.documentElement.dataset.theme;
  };
  apply();
  window.addEventListener("storage", apply);
})();
