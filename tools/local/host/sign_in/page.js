// Asks before it signs in, and does it with the console's own code, which is on this origin.

const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

const say = (text) => {
  document.getElementById("said").textContent = text;
};

const credentials = await import(`${await assets()}/core/credentials.js`);
const current = credentials.session();
if (current) {
  const now = document.getElementById("now");
  now.textContent = `This browser is signed in as ${current.clientId}. That ends.`;
  now.hidden = false;
}
document.getElementById("no").addEventListener("click", () => location.replace("/"));
document.getElementById("yes").addEventListener("click", async ({ target }) => {
  target.disabled = true;
  const answer = await fetch(location.pathname, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  if (!answer.ok) return say("This link has been used, or is older than a minute. Make another one with ./dev ui.");
  credentials.signIn(await answer.json());
  location.replace("/");
});

/** Where the console's scripts are: below a path that changes with them. */
async function assets() {
  const page = await (await fetch("/login")).text();
  return /\/console\/[0-9a-f]+/.exec(page)[0];
}
