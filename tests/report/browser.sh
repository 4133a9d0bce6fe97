# Read by the tests that open a page in a browser without a window: finds the browser, opens pages, compares what
# their scripts noted in attributes of the body. The test's name is in $test_name; $folder is a folder for its files.

browser=""
for name in chromium chromium-browser google-chrome; do
  [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
if [ -z "$browser" ]; then
  echo "$test_name: no chromium here, the page is not tried; 'apt-get install chromium' on Debian"
  exit 77
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$test_name: $1" >&2
  exit 1
}

open_page() { # open_page FILE: what becomes of it is in $folder/dom.html
  timeout 100 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$folder/profile" \
    --virtual-time-budget=5000 --dump-dom "file://$1" >"$folder/dom.html" 2>"$folder/errors" ||
    { cat "$folder/errors" >&2; fail "$browser failed"; }
}
attribute() { sed -n "s/.*<body[^>]* data-$1=\"\([^\"]*\)\".*/\1/p" "$folder/dom.html"; }
expect() { # expect ATTRIBUTE VALUE
  [ "$(attribute "$1")" = "$2" ] || fail "$1 is '$(attribute "$1")' where '$2' is expected"
}
passed() { echo "$test_name: the page works in $("$browser" --version 2>/dev/null || echo "$browser")"; }
