/* Tutti within a program: open a model repository, submit requests with deadlines, close.
 *
 * The library is the server without its network: the same repository, policies, batches, deadlines
 * and statistics. Link with -ltutti; ONNX Runtime is loaded when a model needs it.
 *
 * Life:
 *  1. tutti_open() loads the models.
 *  2. tutti_submit() hands over a request; its inputs are copied before it returns. `done` is
 * called once for each request that tutti_submit() accepted, with the outputs or the error.
 *  3. tutti_close() cancels what is in flight, waits for it, and frees everything.
 *
 * Threads: all functions may be called from any thread at any time, but nothing after tutti_close()
 * has begun. `done` and `word` are called on a thread of the library, one call at a time. They may
 * call all functions but tutti_close(), and should return soon: the next answer waits for them.
 *
 * Pointers to a server, a request and what a function fills in must not be NULL, unless it says so.
 *
 * Errors: a function that can fail returns an enum tutti_code. Its message goes to the struct
 * tutti_error, which may be NULL, and says what was wrong, where, and what would be right. A bug in
 * the library ends the program with a message. */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* Changes with each incompatible change of this file; it is the number in libtutti.so.N. */
#define TUTTI_API_VERSION 0

enum tutti_code {
    TUTTI_OK = 0,
    TUTTI_INVALID = -1,   /* the request, option or repository makes no sense */
    TUTTI_NOT_FOUND = -2, /* no such repository, model or version */
    TUTTI_NO_MEMORY = -3,
    TUTTI_IO = -4,          /* the operating system failed */
    TUTTI_UNAVAILABLE = -5, /* the model exists but cannot serve now */
    TUTTI_BUSY = -6,        /* overload; a later attempt may succeed */
    TUTTI_UNSUPPORTED = -7,
    TUTTI_TIMEOUT = -8, /* the deadline has passed, or cannot be met */
    TUTTI_CANCELLED = -9,
    TUTTI_INTERNAL = -10, /* ONNX Runtime failed */
};

struct tutti_error {
    char text[1024];
};

struct tutti_server;

/* A tensor: row-major, little endian. Each element of a BYTES tensor is a length of 4 bytes, then
 * the bytes. In a batched model dimension 0 is the request's rows. */
struct tutti_tensor {
    const char *name;
    const char *datatype; /* "FP32", "INT64", "BYTES" ... as in KServe v2 */
    const int64_t *shape; /* [rank] */
    int32_t rank;
    const void *bytes;
    size_t size_bytes;
};

struct tutti_request {
    const char *model;
    const char *version; /* NULL or "": the highest that is ready */
    const struct tutti_tensor *inputs;
    int32_t input_count;
    int64_t timeout_us; /* the deadline, from now; 0: the model's own */
    int32_t priority;   /* 0: the model's default; 1 is the most urgent */
};

/* Borrowed until `done` returns. */
struct tutti_answer {
    uint64_t id; /* of the request, as tutti_submit() set it */
    enum tutti_code code;
    const char *why; /* "" if code is TUTTI_OK */
    const struct tutti_tensor *outputs;
    int32_t output_count;
};
typedef void tutti_done_fn(void *context, const struct tutti_answer *answer);

/* A word of a model that emits: the one output of `word`, a row of shape [1, 1, ...]; `code` is
 * TUTTI_OK. Borrowed until the function returns. */
typedef void tutti_word_fn(void *context, const struct tutti_answer *word);

/* "0.2.0". Static storage. */
TUTTI_API const char *tutti_version(void);

/* Opens a repository in Triton's layout. `options`: strings "key=value", where a key is a flag of
 * `tutti serve` without its dashes:
 *   executors, onnxruntime, python, scheduler-threads, model-control-mode (none or explicit),
 * load-model (may be repeated), exit-on-error, and every limit that `tutti serve --show-limits`
 * prints; log=stderr writes log lines there (default: log=none). A model that cannot be loaded is
 * unavailable, with its reason; the others serve. BUSY: another server of this process has ONNX
 * Runtime open. */
TUTTI_API enum tutti_code tutti_open(const char *repository, const char *const *options,
                                     int32_t option_count, struct tutti_server **out_server,
                                     struct tutti_error *why);
/* On TUTTI_OK, `done` will be called with `context`, perhaps before this returns; *out_id (may be
 * NULL) names the request for tutti_cancel(). Else it is not called. */
TUTTI_API enum tutti_code tutti_submit(struct tutti_server *server,
                                       const struct tutti_request *request, tutti_done_fn *done,
                                       void *context, uint64_t *out_id, struct tutti_error *why);
/* The same for a model that emits words, as decoders of cells do: `word` is called with each word
 * when it exists, on the thread of `done` and before it; `done` has all outputs, put together. A
 * program that takes words too slowly gets TUTTI_CANCELLED (option max-stream-words). UNSUPPORTED:
 * the model emits none. */
TUTTI_API enum tutti_code tutti_stream(struct tutti_server *server,
                                       const struct tutti_request *request, tutti_word_fn *word,
                                       tutti_done_fn *done, void *context, uint64_t *out_id,
                                       struct tutti_error *why);
/* `done` is then called with TUTTI_CANCELLED, or with the answer that was there first. NOT_FOUND:
 * there is no such request any more. */
TUTTI_API enum tutti_code tutti_cancel(struct tutti_server *server, uint64_t id);
/* Statistics of all models that serve, as JSON of Triton's statistics extension. The caller frees
 * *out_json by tutti_free(). */
TUTTI_API enum tutti_code tutti_statistics(struct tutti_server *server, char **out_json,
                                           struct tutti_error *why);
TUTTI_API void tutti_free(void *take_memory);
/* NULL-safe. */
TUTTI_API void tutti_close(struct tutti_server *take_server);

#ifdef __cplusplus
}
#endif

#endif
