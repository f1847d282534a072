// A worker for pages that are opened as files, where browsers start none: its script runs in a hidden frame instead.
// The search of the documentation needs it. Messages go both ways as a worker's do.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.documentElement.append(frame)
    const inner = frame.contentWindow
    inner.postMessage = data => {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }
    inner.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => load(each)), Promise.resolve())
    const load = address => new Promise((resolve, reject) => {
      const script = inner.document.createElement("script")
      script.src = address
      script.onload = resolve
      script.onerror = reject
      inner.document.head.append(script)
    })
    this.frame = frame
    this.ready = load(new URL(url, document.baseURI).href)
  }

  postMessage(data) {
    const { contentWindow } = this.frame
    this.ready.then(() => contentWindow.dispatchEvent(new contentWindow.MessageEvent("message", { data })))
  }

  terminate() {
    this.frame.remove()
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
}
