/* A cluster of processes of this machine: a scheduler, frontends and backends of emulated models,
 * in a folder that is written for the purpose. Its nodes talk over the loopback, at ports that the
 * system has chosen.
 *
 * Life: _init writes the folder; _start starts a node's process; _await waits until the caller is
 * content; _check and _ask as often as wanted; _end ends the processes that were started; _fini
 * removes the folder. Nodes are numbered as in the file: the scheduler, the frontends, the
 * backends. A process that ends by itself is an error of _check and _await, with its log's last
 * lines. If this process is killed by SIGKILL, the others go on.
 *
 * Blocks. One thread. Implemented in process_cluster.c (processes), process_files.c (the folder).
 */
#ifndef TT_LAB_PROCESSES_PROCESS_CLUSTER_H
#define TT_LAB_PROCESSES_PROCESS_CLUSTER_H

#include "core/step_model.h"
#include "fleet/visit.h"
#include "policy/policy.h"

#include <jansson.h>
#include <signal.h>
#include <sys/types.h>

enum {
    TT_PROCESS_FRONTENDS = 16, /* each keeps 1024 requests in the cluster; others wait there */
    TT_PROCESS_BACKENDS = 64,
    TT_PROCESS_NODES = 1 + TT_PROCESS_FRONTENDS + TT_PROCESS_BACKENDS,
    TT_PROCESS_SCHEDULER = 0, /* numbers of nodes */
    TT_PROCESS_FIRST_FRONTEND = 1,
    TT_PROCESS_PATH_BYTES = 256
};

/* Composition: what each device has inside (sim/sim_inside.h). */
struct tt_process_inside {
    const char *policy; /* NULL: nothing; a device runs whole batches */
    const struct tt_option *options;
    int32_t option_count;
    int32_t executors, grants; /* of each device */
};

/* One INT32 per row goes in, as many as the request is long where the profile has lengths, and one
 * comes out: inputs `x`, outputs `y`. */
struct tt_process_model {
    const char *name; /* borrowed, as the profile */
    const struct tt_profile *profile;
    int32_t max_batch;
    int64_t slo_ns; /* TT_NEVER: none */
    /* For a policy inside: static steps, on the streams of an emulated device. 0: whole only. */
    int32_t step_count;
    const struct tt_step *steps;
};

struct tt_process_cluster_options {
    const struct tt_process_model *models; /* read during _init only */
    int32_t model_count;
    int32_t frontends, backends; /* 1 to the limits above */
    int32_t devices;             /* of all backends; the first ones have one more than the others */
    double slower;               /* times of the cluster are so much longer than usual */
    int64_t control_ns;          /* what a message between nodes takes; 0: as the others */
    struct tt_process_inside inside;
};

struct tt_process_cluster {
    char folder[TT_PROCESS_PATH_BYTES];
    struct tt_cluster_file file;
    struct tt_cluster_key key;      /* none */
    struct tt_cluster_tls tls;      /* none */
    int reserved[TT_PROCESS_NODES]; /* sockets: ports of nodes */
    int32_t reserved_count;
    pid_t children[TT_PROCESS_NODES]; /* by node; 0: none */
    int32_t frontends, backends;
    char *urls[TT_PROCESS_FRONTENDS]; /* NULL: it did not serve yet */
};

/* Errors: IO, NO_MEMORY; INVALID: a model's name is none of a repository. Then _fini. */
TT_MUST_CHECK enum tt_err tt_process_cluster_init(struct tt_process_cluster *self,
                                                  const struct tt_process_cluster_options *options,
                                                  struct tt_error *why);
/* `more`: further words of its command line, which end with NULL. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_process_cluster_start(struct tt_process_cluster *self, int32_t node,
                                                   const char *const *more, struct tt_error *why);
/* UNAVAILABLE: a process has ended; the message has its node, how it ended, and what it said. */
TT_MUST_CHECK enum tt_err tt_process_cluster_check(struct tt_process_cluster *self,
                                                   struct tt_error *why);
/* A line to a node; *out_answer: its answer, a new reference. Errors: those of tt_visit();
 * UNAVAILABLE: it refuses; INVALID: the answer is not JSON. */
TT_MUST_CHECK enum tt_err tt_process_cluster_ask(const struct tt_process_cluster *self,
                                                 int32_t node, const char *line,
                                                 json_t **out_answer, struct tt_error *why);
/* How many connections to each of so many frontends this process may open, at most `wanted`, at
 * least
 * 1. Raises its limit of open files where that is needed and allowed. */
int32_t tt_process_connection_limit(int32_t frontends, int32_t wanted);
/* Every frontend serves, and `urls` is complete. */
bool tt_process_cluster_serves(struct tt_process_cluster *self);

struct tt_process_wait {
    bool (*is_over)(void *context); /* asked again and again */
    void *context;
    const char *what;                  /* does not happen within the time, for the message */
    const volatile sig_atomic_t *stop; /* may be NULL */
};
/* Errors: those of _check; CANCELLED: `stop`; TIMEOUT: after two minutes. */
TT_MUST_CHECK enum tt_err tt_process_cluster_await(struct tt_process_cluster *self,
                                                   const struct tt_process_wait *wait,
                                                   struct tt_error *why);
/* By SIGTERM, after a while by SIGKILL. True: all ended by themselves, with exit code 0. */
bool tt_process_cluster_end(struct tt_process_cluster *self);
/* Also after a failed _init, and on zeroed memory. No process may use the folder any more. */
void tt_process_cluster_fini(struct tt_process_cluster *self);
/* The path of a file in the folder. Returns `out`. */
const char *tt_process_path(const struct tt_process_cluster *self, const char *name,
                            char out[TT_PROCESS_PATH_BYTES]);
/* A pause between two looks. */
void tt_process_pause(void);

/* ---- process_files.c ---- */

/* Makes the folder with `models` and `nodes`, and reads the nodes. */
TT_MUST_CHECK enum tt_err tt_process_files_write(struct tt_process_cluster *self,
                                                 const struct tt_process_cluster_options *options,
                                                 struct tt_error *why);

#endif
