/* The protocol's operations beside inference, as functions that return plain structs: server and
 * model metadata, configuration, statistics, repository index, readiness, log and trace settings.
 * Every transport calls these functions; kserve_pages.h writes the structs as JSON, and
 * kserve_bodies.h reads the JSON bodies that change something.
 *
 * Loading and unloading take seconds, so they are messages, not functions: see
 * serve/model_command.h (tt_model_command_new, tt_port_submit_command).
 *
 * Operations never wait and know no transport. They belong to the thread of the service's port. A
 * borrowed string is valid until the port's next operation. Implemented in kserve_operations.c and
 * kserve_statistics.c. */
#ifndef TT_NET_KSERVE_KSERVE_OPERATIONS_H
#define TT_NET_KSERVE_KSERVE_OPERATIONS_H

#include "base/log/log_settings.h"
#include "net/kserve/kserve_request.h"
#include "serve/served_model.h"
#include "serve/serving.h"

struct tt_catalogue;
struct tt_shared_memory;

/* The server as one connection thread sees it; all borrowed. */
struct tt_kserve_service {
    struct tt_serving *serving;
    struct tt_port *port; /* the thread's */
    const char *server_version;
    struct tt_log_settings *log_settings; /* NULL: the server has none */
    struct tt_shared_memory *memory;      /* NULL: none is shared */
};

/* --- the server --- */

struct tt_kserve_server {
    const char *name, *version;
    const char *const *extensions;
    int32_t extension_count;
};
void tt_kserve_server(const struct tt_kserve_service *service, struct tt_kserve_server *out_server);
/* True: the process answers. */
bool tt_kserve_live(const struct tt_kserve_service *service);
/* True: the server accepts inference (tt_serving_ready()). */
bool tt_kserve_ready(const struct tt_kserve_service *service);

/* --- one model --- */

/* OK: the model serves. NOT_FOUND, UNAVAILABLE, with the reason. */
TT_MUST_CHECK enum tt_err tt_kserve_model_ready(const struct tt_kserve_service *service,
                                                const struct tt_kserve_target *target,
                                                struct tt_error *why);

enum { TT_KSERVE_VERSION_BYTES = 32 };
struct tt_kserve_version {
    char text[TT_KSERVE_VERSION_BYTES];
};

struct tt_kserve_metadata {
    const char *name, *platform;          /* borrowed */
    const struct tt_signature *signature; /* borrowed */
    struct tt_kserve_version *versions;   /* ready ones, the highest first; owned */
    int64_t version_count, version_capacity;
};
/* NOT_FOUND, UNAVAILABLE, NO_MEMORY. To be finished after success only. */
TT_MUST_CHECK enum tt_err tt_kserve_metadata_init(struct tt_kserve_metadata *out_metadata,
                                                  const struct tt_kserve_service *service,
                                                  const struct tt_kserve_target *target,
                                                  struct tt_error *why);
void tt_kserve_metadata_fini(struct tt_kserve_metadata *self);

/* Appends the model's complete configuration as JSON, with the member names of Triton's
 * ModelConfig. NOT_FOUND, UNAVAILABLE, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_config(const struct tt_kserve_service *service,
                                           const struct tt_kserve_target *target,
                                           struct tt_text *out_json, struct tt_error *why);

/* --- statistics --- */

struct tt_kserve_duration {
    int64_t count, ns; /* ns: the sum */
};

struct tt_kserve_batches {
    int32_t rows;  /* of each batch */
    int64_t count; /* executions */
    int64_t input_ns, infer_ns, output_ns;
};

/* Durations are sums over requests. queue, input, inference and output add up to success; the
 * hand-over between threads counts as output. */
struct tt_kserve_model_statistics {
    const char *name, *version; /* of the catalogue */
    int64_t last_inference_ms;  /* since 1970; 0: never */
    int64_t inference_count;    /* rows */
    int64_t execution_count;    /* batches */
    struct tt_kserve_duration success, fail, queue, input, inference, output;
    struct tt_kserve_batches *batches; /* by rows, ascending, only sizes that ran; owned */
    int64_t batch_count, batch_capacity;
};

struct tt_kserve_statistics {
    struct tt_kserve_model_statistics *models; /* one per version that serves; owned */
    int64_t count, capacity;
    struct tt_catalogue *catalogue; /* a reference; NULL: none */
};
/* A copy, which any thread may read. Of all models where `target` is NULL. NOT_FOUND, UNAVAILABLE,
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_statistics_init(struct tt_kserve_statistics *out_statistics,
                                                    const struct tt_kserve_service *service,
                                                    const struct tt_kserve_target *target,
                                                    struct tt_error *why);
/* Those of all models of a catalogue (NULL: none), of which the caller has a reference. Any thread.
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_statistics_of_all(struct tt_kserve_statistics *out_statistics,
                                                      const struct tt_catalogue *catalogue,
                                                      struct tt_error *why);
void tt_kserve_statistics_fini(struct tt_kserve_statistics *self);

/* --- the repository --- */

struct tt_kserve_index_entry {
    const char *name, *version, *state, *reason; /* borrowed; version "": never loaded */
    const char *policy;                          /* borrowed; NULL: it does not serve */
    int64_t slo_ns;                              /* TT_NEVER: none */
};
struct tt_kserve_index {
    struct tt_kserve_index_entry *entries; /* by name, the highest version first; owned */
    int64_t count, capacity;
};
/* NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_index_init(struct tt_kserve_index *out_index,
                                               const struct tt_kserve_service *service,
                                               bool only_ready, struct tt_error *why);
/* The same from a catalogue (NULL: nothing is known), of which the caller has a reference as long
 * as the index is there. Any thread. NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_index_of(struct tt_kserve_index *out_index,
                                             const struct tt_catalogue *catalogue, bool only_ready,
                                             struct tt_error *why);
void tt_kserve_index_fini(struct tt_kserve_index *self);

/* --- settings --- */

enum {
    TT_KSERVE_LOG_ERROR = 1,
    TT_KSERVE_LOG_WARNING = 2,
    TT_KSERVE_LOG_INFO = 4,
    TT_KSERVE_LOG_VERBOSE = 8,
    TT_KSERVE_LOG_FORMAT = 16,
};
struct tt_kserve_log_settings {
    uint32_t sets; /* of a change: which members it sets, bits of TT_KSERVE_LOG_... */
    bool error, warning, info;
    uint32_t verbose_level; /* 0: none */
    bool is_iso8601;        /* else the default form */
};
/* UNSUPPORTED: the server has no log settings. */
TT_MUST_CHECK enum tt_err tt_kserve_log_settings(const struct tt_kserve_service *service,
                                                 struct tt_kserve_log_settings *out_settings,
                                                 struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_kserve_log_settings_change(const struct tt_kserve_service *service,
                                                        const struct tt_kserve_log_settings *change,
                                                        struct tt_error *why);

/* Triton's settings for tracing single requests into a file. This server has no such trace: the
 * settings always have Triton's defaults, and a change is rejected. What the server did with all
 * requests is tt_serving_trace. */
struct tt_kserve_trace_settings {
    const char *level, *rate, *count, *log_frequency, *file, *mode;
};
extern const struct tt_kserve_trace_settings tt_kserve_trace_settings;
/* UNSUPPORTED, with a sentence that says what to use instead. */
TT_MUST_CHECK enum tt_err tt_kserve_trace_settings_change(const char *setting,
                                                          struct tt_error *why);

#endif
