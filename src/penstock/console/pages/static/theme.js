// The theme of the pages that NiceGUI does not draw: the one that was chosen, or else that of the system.
{
  const [, chosen] = /(?:^|; )penstock_theme=(dark|light)/.exec(document.cookie) ?? [];
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.body.classList.toggle("body--dark", isDark);
}
