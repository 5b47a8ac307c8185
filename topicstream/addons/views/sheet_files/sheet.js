const form = document.getElementById("sheet"), said = document.getElementById("said");
const asked = [...form.querySelectorAll("fieldset")].map(f => f.dataset.question);
const answers = () => { const given = new FormData(form); return asked.map(q => [q, given.get(`q${q}`) || ""]); };
form.addEventListener("change", () => { said.textContent = `${answers().filter(a => a[1]).length} of ${asked.length} answered`; });
document.getElementById("save").addEventListener("click", () => {
  const text = ["question,answer", ...answers().map(a => a.join(","))].join("\n") + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "answers.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.dataset.theme = "dark";
document.documentElement.dataset.ready = "";
