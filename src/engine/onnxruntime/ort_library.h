/* The ONNX Runtime library, loaded at run time, with its telemetry off.
 *
 * A program linked against the library would need one exact release. So it is opened by dlopen and
 * asked for version 21 of its API, which all releases from 1.21 serve. Releases of 2026 send
 * telemetry by default: a thread, files in the home directory and /tmp, look-ups. The environment
 * variable that switches it off is set before any code of the library runs. Changing the
 * environment is safe only without threads, so a program opens the library first.
 *
 * Life: the program opens it once (`tt_ort_library_open`), lends it to engines, and closes it last.
 * It holds the process's one ONNX Runtime environment: no threads of its own, one arena for all
 * sessions, and our logger, so that ONNX Runtime never writes to stderr. The library itself stays
 * mapped until the process ends.
 *
 * Search order:
 *  1. the path in the options;
 *  2. the environment variable TUTTI_ONNXRUNTIME;
 *  3. ../lib/tutti beside the running program;
 *  4. the path known at compile time (TUTTI_ONNXRUNTIME_LIBRARY);
 *  5. the system.
 * If 1 or 2 is given, nothing else is tried. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_LIBRARY_H
#define TT_ENGINE_ONNXRUNTIME_ORT_LIBRARY_H

#include "base/err.h"

#include <onnxruntime_c_api.h>

enum { TT_ORT_API_VERSION = 21 };

/* `severity` is an OrtLoggingLevel (2 warning, 3 error, 4 fatal). Any thread. */
typedef void tt_ort_log_fn(void *context, int severity, const char *text);

struct tt_ort_library_options {
    const char *path; /* NULL: search */
    tt_ort_log_fn
        *log; /* NULL: its log is dropped; calls that fail still return its error message */
    void *log_context;
    int64_t arena_bytes; /* that the arena of all sessions may grow to; 0: no limit */
};

struct tt_ort_shared;

struct tt_ort_library {
    const OrtApi *api;
    const char *version; /* "1.31.1" */
    char path[4096];     /* of the opened library */
    OrtEnv *env;
    OrtMemoryInfo *cpu_memory;
    struct tt_ort_shared *shared; /* sessions (engine/onnxruntime/ort_shared.h) */
    tt_ort_log_fn *log;
    void *log_context;
};

/* Errors: NOT_FOUND (no library; the message lists the places searched), UNSUPPORTED (older than
 * 1.21, or not ONNX Runtime), BUSY (already open), NO_MEMORY, INTERNAL. `options` may be NULL. */
TT_MUST_CHECK enum tt_err tt_ort_library_open(const struct tt_ort_library_options *options,
                                              struct tt_ort_library **out_library,
                                              struct tt_error *why);
/* After every engine. NULL-safe. */
void tt_ort_library_close(struct tt_ort_library *take_library);

#endif
