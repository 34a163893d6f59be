/* Search, where the site is opened from a folder: browsers start no worker there, so it runs in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.begun = new Promise(begin => {
        this.frame.onload = () => {
          const { document } = this.inside
          this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = Object.assign(document.createElement("script"), { src: url, onload: begin })
          document.body.append(script)
        }
      })
      document.body.append(this.frame)
    }

    get inside() {
      return this.frame.contentWindow
    }

    postMessage(data) {
      this.begun.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
