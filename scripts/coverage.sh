#!/usr/bin/env bash
# Builds with line counters (build-coverage/), runs every test, and prints the covered lines of each folder of src.
# build-coverage/coverage.html shows the lines. Exit code 1 where base, core, policy or net are below 90 %.
set -euo pipefail
cd "$(dirname "$0")/.."
export ORT_DISABLE_TELEMETRY=1
[ -f build-coverage/build.ninja ] || cmake --preset default -B build-coverage -DTUTTI_COVERAGE=ON -DTUTTI_HARDEN=OFF
cmake --build build-coverage -j "$(nproc)"
find build-coverage -name '*.gcda' -delete
# A failed test is reported by `make test`; the counters of the others count.
(cd build-coverage && ctest -j "$(nproc)" --timeout 600 --output-junit test-results.xml) || true
gcovr --root . --filter src/ --object-directory build-coverage --json-summary build-coverage/coverage.json \
  --html-details build-coverage/coverage.html build-coverage >/dev/null
python3 - build-coverage/coverage.json <<'PY'
import collections, json, sys
total, covered = collections.Counter(), collections.Counter()
for file in json.load(open(sys.argv[1]))["files"]:
    folder = file["filename"].removeprefix("src/").rpartition("/")[0]
    for key in {folder, folder.split("/")[0], "src"}:
        total[key] += file["line_total"]
        covered[key] += file["line_covered"]
low = []
for folder in sorted(total):
    percent = 100 * covered[folder] / total[folder]
    print(f"{folder:24} {covered[folder]:6} of {total[folder]:6} lines  {percent:5.1f} %")
    if folder in ("base", "core", "policy", "net") and percent < 90:
        low.append(folder)
if low:
    sys.exit("coverage: below 90 %: " + ", ".join(low))
PY
