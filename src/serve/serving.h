/* The server without its sockets: models that are served, requests that come in and answers that go
 * out. Models come and go while it serves (serve/model_command.h).
 *
 * Life of a request: a connection looks the model up (`tt_serving_find`), opens an `struct
 * tt_inference` on it
 * (`tt_inference_begin` checks the shapes and reserves memory in the model's pool), writes each
 * input's bytes where `tt_inference_input` says (that is the one copy from the socket), and submits
 * it. The model's domain decides when and with whom it runs. The answer comes back through the
 * connection thread's `struct tt_port`: `tt_port_drain` calls `done` for each finished request on
 * the thread that owns the port; there the connection reads the outputs in place
 * (`tt_inference_output`) and finally gives the request back (`tt_inference_release`). A client
 * that goes away is `tt_inference_cancel`: `done` still comes, with TT_ERR_CANCELLED.
 *
 * Threads: find, begin, input, submit, cancel, output and release belong to the port's thread. */
#ifndef TT_SERVE_SERVING_H
#define TT_SERVE_SERVING_H

#include "base/err.h"
#include "base/text.h"
#include "core/tensor.h"
#include "engine/engine.h"

#include <stdbool.h>

struct tt_serving;
struct tt_served_model;
struct tt_model_stats;
struct tt_inference;

/* Where answers for one thread arrive. `wake` is called from other threads when the port goes from
 * empty to not empty (an uv_async_send, say). */
struct tt_port;
typedef void tt_port_wake_fn(void *context);
TT_MUST_CHECK enum tt_err tt_port_open(struct tt_serving *serving, tt_port_wake_fn *wake,
                                       void *context, struct tt_port **out_port,
                                       struct tt_error *why);
/* Waits for what is in flight, so every request must be released, or cancelled with a `done` that
 * releases it; that and `wake` are called from in here. */
void tt_port_close(struct tt_port *take_port);
/* Calls `done` of every request and every model command that finished since the last call. */
void tt_port_drain(struct tt_port *port);
/* For a loop that has many requests at a time. From now on the scheduler hears of submissions and
 * cancellations at the next tt_port_flush only, so that they cost one turn of it; `done` may be
 * called from in there, too. Before the loop waits it calls tt_port_rest, a flush after which it
 * must wait before it does anything else with the port: only then, and until the next flush, is it
 * woken. */
void tt_port_hold_back(struct tt_port *port);
void tt_port_flush(struct tt_port *port);
void tt_port_rest(struct tt_port *port);

/* NOT_FOUND (no such model or version), UNAVAILABLE (known, but not ready; the reason is in `why`).
 * `version` "" means the highest ready one. The model is good until the port's next find, drain or
 * index, and from tt_inference_begin on until that inference is released. */
TT_MUST_CHECK enum tt_err tt_serving_find(struct tt_port *port, const char *name,
                                          const char *version, struct tt_served_model **out_model,
                                          struct tt_error *why);
const struct tt_signature *tt_served_model_signature(const struct tt_served_model *model);
const char *tt_served_model_name(const struct tt_served_model *model);
const char *tt_served_model_version(const struct tt_served_model *model);
const char *tt_served_model_platform(const struct tt_served_model *model); /* "onnxruntime_onnx" */
/* Seconds after which a request that was refused, or given up, may do better: 1 or more. */
int32_t tt_served_model_retry_after_s(const struct tt_served_model *model);
/* The model's whole Triton configuration as JSON. */
TT_MUST_CHECK enum tt_err tt_served_model_config_json(const struct tt_served_model *model,
                                                      struct tt_text *out_json);

struct tt_inference_shape {
    int32_t input; /* index in the signature */
    struct tt_shape shape;
};

typedef void tt_inference_done_fn(void *context, struct tt_inference *inference, enum tt_err err,
                                  const char *why);

/* Every input of the signature exactly once, in any order. Checks the shapes against the signature
 * (INVALID with a sentence that names the input, its shape and the expected one; rows that differ
 * between inputs; more rows than max_batch), and reserves memory (BUSY at the port's limit of
 * requests in flight). `sizes_bytes[i]` is the size of input shapes[i] where its dtype
 * is BYTES (else ignored). */
TT_MUST_CHECK enum tt_err tt_inference_begin(struct tt_port *port, struct tt_served_model *model,
                                             const struct tt_inference_shape *shapes,
                                             const size_t *sizes_bytes, int32_t count,
                                             struct tt_inference **out_inference,
                                             struct tt_error *why);
/* Where the bytes of signature input `input` go, and how many there must be. */
void *tt_inference_input(struct tt_inference *inference, int32_t input, size_t *out_size_bytes);

struct tt_inference_options {
    int64_t timeout_ns; /* from now; 0: the model's own */
    int32_t priority;   /* 0: the model's default; 1 is the most urgent */
};
/* Hands the request to the model's domain; `done` comes exactly once, from tt_port_drain. */
void tt_inference_submit(struct tt_inference *inference, const struct tt_inference_options *options,
                         tt_inference_done_fn *done, void *context);
/* The client has gone: `done` comes soon with TT_ERR_CANCELLED (or with the answer, if it was
 * already on its way). */
void tt_inference_cancel(struct tt_inference *inference);
/* After a `done` without error: output `output` of the signature, in place. */
void tt_inference_output(const struct tt_inference *inference, int32_t output,
                         struct tt_tensor_view *out_view);
/* Gives everything back. Legal before submit (the body turned out bad) and after done. */
void tt_inference_release(struct tt_inference *take_inference);

/* The repository as seen by the index: calls `each` per model version, by name, the highest version
 * first. state: "READY", "UNAVAILABLE", "LOADING", "UNLOADING"; version and state are "" for a
 * model that lies in the repository and was never asked for. */
typedef void tt_serving_index_fn(void *context, const char *name, const char *version,
                                 const char *state, const char *reason);
void tt_serving_index(struct tt_port *port, tt_serving_index_fn *each, void *context);
/* Calls `each` for the versions that serve: of `model`, or of all (NULL); `version` "" is any. */
typedef void tt_serving_stats_fn(void *context, const char *name, const char *version,
                                 const struct tt_model_stats *stats);
void tt_serving_stats(struct tt_port *port, const char *model, const char *version,
                      tt_serving_stats_fn *each, void *context);
/* Serving, whichever models could be loaded. */
bool tt_serving_ready(const struct tt_serving *serving);
/* The page for Prometheus, text format 0.0.4, appended to `out_page`. */
void tt_serving_metrics(struct tt_port *port, struct tt_text *out_page);

/* What every domain did in the last `last_ns`, as Chrome trace JSON (record/trace.h), appended to
 * `out_json`. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serving_trace(struct tt_serving *serving, int64_t last_ns,
                                           struct tt_text *out_json, struct tt_error *why);

#endif
