/* ONNX Runtime, loaded at run time, with its telemetry off.
 *
 * A program linked against the library would demand one exact release, so it is opened with dlopen
 * and asked for version 21 of its API, which every release from 1.21 on serves. Releases of 2026
 * report home by default (a thread, files in the home directory and /tmp, look-ups); before
 * anything of the library runs, its own switch for that is set in the environment, which is why
 * opening comes first in a program, before there are threads.
 *
 * Life: opened once by whoever owns the process (`tt_ort_library_open`), lent to engines, closed
 * last. It holds the one environment of the process: no threads of its own, one arena for all
 * sessions, and a logger of ours, so that ONNX Runtime never writes to our stderr. The library
 * itself stays mapped until the process ends.
 *
 * It is looked for, in this order: the path that is asked for; the environment's TUTTI_ONNXRUNTIME;
 * ../lib/tutti beside the running program; where the build put it (TUTTI_ONNXRUNTIME_LIBRARY at
 * compile time); the system. The first two are orders: when they fail, nothing else is tried. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_LIBRARY_H
#define TT_ENGINE_ONNXRUNTIME_ORT_LIBRARY_H

#include "base/err.h"

#include <onnxruntime_c_api.h>

enum { TT_ORT_API_VERSION = 21 };

/* `severity` as OrtLoggingLevel (2 warning, 3 error, 4 fatal). Any thread. */
typedef void tt_ort_log_fn(void *context, int severity, const char *text);

struct tt_ort_library_options {
    const char *path; /* NULL: looked for */
    tt_ort_log_fn
        *log; /* NULL: what it logs is dropped (what fails is told by the call that fails) */
    void *log_context;
};

struct tt_ort_shared;

struct tt_ort_library {
    const OrtApi *api;
    const char *version; /* "1.31.1" */
    char path[4096];     /* what was opened */
    OrtEnv *env;
    OrtMemoryInfo *cpu_memory;
    struct tt_ort_shared *shared; /* sessions (engine/onnxruntime/ort_shared.h) */
    tt_ort_log_fn *log;
    void *log_context;
};

/* Errors: NOT_FOUND (no library; says where was looked), UNSUPPORTED (older than 1.21, or not ONNX
 * Runtime), BUSY (one is open already), NO_MEMORY, INTERNAL. `options` may be NULL. */
TT_MUST_CHECK enum tt_err tt_ort_library_open(const struct tt_ort_library_options *options,
                                              struct tt_ort_library **out_library,
                                              struct tt_error *why);
/* After every engine. NULL-safe. */
void tt_ort_library_close(struct tt_ort_library *take_library);

/* TT_OK for a NULL status. Else writes the sentence, without the noise of file names and function
 * signatures, frees the status, and returns the kind: INVALID (the model or the tensors are at
 * fault), NOT_FOUND, UNSUPPORTED, NO_MEMORY, INTERNAL. */
enum tt_err tt_ort_check(const struct tt_ort_library *library, OrtStatus *take_status,
                         struct tt_error *why);
/* What a person reads of one of its messages: see tt_ort_check. */
void tt_ort_plain_sentence(const char *message, char *out, size_t capacity);

#endif
