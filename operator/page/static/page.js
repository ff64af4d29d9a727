// What is live on the pages. All of them work without it, but for listening.
"use strict";

// long and relative write what format.go writes.
function long(seconds) {
	const two = (a, unitA, b, unitB) => (b === 0 || a > 9 ? a + " " + unitA : a + " " + unitA + " " + b + " " + unitB);
	const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
	if (seconds < 60) return Math.floor(seconds) + " s";
	if (hours < 1) return minutes + " min";
	if (hours < 24) return two(hours, "h", minutes % 60, "min");
	return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

function relative(time) {
	const seconds = (Date.now() - time) / 1000;
	if (seconds >= 1) return long(seconds) + " ago";
	if (seconds <= -1) return "in " + long(-seconds);
	return "now";
}

function tellTimes() {
	for (const time of document.querySelectorAll("time")) {
		const rel = time.querySelector(".rel");
		const at = Date.parse(time.dateTime);
		// What is to come and is due is now.
		if (rel) rel.textContent = "next" in time.dataset && at <= Date.now() ? "now" : relative(at);
	}
}
setInterval(tellTimes, 10000);

// parse makes elements of HTML of this hub.
function parse(html) {
	const holder = document.createElement("template");
	holder.innerHTML = html;
	return holder.content;
}

// overview replaces the parts that have changed. One that has the focus, or a selection,
// waits until it has not.
function overview(live) {
	const shown = new Map(), pause = document.getElementById("pause");
	let source = null, paused = false;

	function busy(part) {
		const selection = document.getSelection();
		return part.contains(document.activeElement) || (!selection.isCollapsed && part.contains(selection.anchorNode));
	}
	function show(event) {
		for (const fresh of parse(event.data).querySelectorAll("[id^=live-]")) {
			const part = document.getElementById(fresh.id);
			if (!part || shown.get(fresh.id) === fresh.innerHTML || busy(part)) continue;
			shown.set(fresh.id, fresh.innerHTML);
			part.innerHTML = fresh.innerHTML;
		}
	}
	function begin() {
		if (source || paused || document.hidden) return;
		source = new EventSource(live.dataset.live);
		source.onmessage = show;
		source.onopen = () => live.classList.remove("stale");
		// What refuses for good closes the source; it is asked again later.
		source.onerror = () => {
			live.classList.add("stale");
			if (source && source.readyState === EventSource.CLOSED) {
				source = null;
				setTimeout(begin, 10000);
			}
		};
	}
	function end() {
		if (source) source.close();
		source = null;
	}
	pause.hidden = false;
	pause.addEventListener("click", () => {
		paused = !paused;
		pause.setAttribute("aria-pressed", String(paused));
		pause.textContent = paused ? "Go on" : "Pause updates";
		paused ? end() : begin();
	});
	document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
	addEventListener("pagehide", end);
	addEventListener("pageshow", begin);
	begin();
}

// maxHeard is how many entries are kept: a busy topic must not fill the browser.
const maxHeard = 200;

// What the page says of a stream: of what a test callback hears, and of a check.
const listening = {
	title: "Listen", on: "Listening", things: ["notification", "notifications"], counted: ".notification",
	ended: "It has ended. Load this page again to listen once more.",
	refused: "The hub does not let this page listen. Load it again, or see the hub's log.",
};
const checking = {
	title: "Check", on: "Checking", things: ["finding", "findings"], counted: ".finding",
	ended: "The check has ended.",
	refused: "The hub does not let this page check. Load it again, or see the hub's log.",
};

// follow adds what a stream sends: what is heard with the newest first, findings in their order.
function follow(list, says) {
	const told = document.getElementById("listening"), stop = document.getElementById("stop");
	const source = new EventSource(list.dataset.listen);
	let count = 0;
	const counted = () => count + " " + says.things[count === 1 ? 0 : 1];
	function end(text) {
		source.close();
		told.textContent = text;
		stop.hidden = true;
		document.title = says.title + " – Carillon";
	}
	source.onopen = () => {
		told.textContent = says.on + ".";
		stop.hidden = false;
	};
	source.onmessage = (event) => {
		if (says === checking) {
			list.append(parse(event.data));
		} else {
			list.prepend(parse(event.data));
			while (list.children.length > maxHeard) list.lastElementChild.remove();
		}
		count = list.querySelectorAll(says.counted).length;
		told.textContent = says.on + ": " + counted() + ".";
	};
	source.addEventListener("end", () => end(says.ended));
	source.onerror = () => {
		if (source.readyState === EventSource.CLOSED) end(says.refused);
		// A check that is begun anew would say everything again.
		else if (says === checking) end("The connection was lost after " + counted() + ". Check again.");
		else told.textContent = "The connection is lost; trying again.";
	};
	stop.addEventListener("click", () => end("Stopped."));
	addEventListener("pagehide", () => source.close());
}

const live = document.getElementById("live"), heard = document.getElementById("heard");
if (live) overview(live);
if (heard) follow(heard, "check" in heard.dataset ? checking : listening);
