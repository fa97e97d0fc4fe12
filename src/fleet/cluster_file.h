/* The description of a cluster that `static:FILE` names: its nodes and its times, in plain lines.
 *
 *     # a comment
 *     scheduler s1 127.0.0.1:7101
 *     frontend  f1 127.0.0.1:7201
 *     backend   b1 127.0.0.1:7301 devices=2 pool=a memory-mib=40960
 *     silence-ms 20
 *
 * A node's line has its role, its name, and the address at which the others reach it (TCP, and the
 * same port for UDP). Backends of one pool have the same models; they may name it, and say how much
 * memory a device has. With grants=N each device of a backend has N batches at once, which its
 * models' own policies batch further: schedulers see N times as many devices, and plan as if all of
 * them were busy. With executors=N these policies have N executors on each device, and may run a
 * stage on each. A line of a time has its name and its value. The order of the nodes gives their
 * numbers. All processes of a cluster read the same file: `digest` is over what it says, and nodes
 * with different digests refuse each other.
 *
 * Implemented in cluster_file.c. */
#ifndef TT_FLEET_CLUSTER_FILE_H
#define TT_FLEET_CLUSTER_FILE_H

#include "base/err.h"
#include "cluster/cluster.h"

#include <sys/socket.h>

enum { TT_CLUSTER_NAME_BYTES = 64, TT_CLUSTER_HOST_BYTES = 256 };

struct tt_cluster_place {
    char name[TT_CLUSTER_NAME_BYTES];
    char host[TT_CLUSTER_HOST_BYTES];
    int32_t tcp_port;
    enum tt_cluster_role role;
    int32_t devices;                  /* of a backend; else 0 */
    int64_t memory_mib;               /* of one of its devices; 0: not stated */
    int32_t executors;                /* of each device of a backend; else 0 */
    int32_t grants;                   /* of each device of a backend, at once; else 0 */
    char pool[TT_CLUSTER_NAME_BYTES]; /* of a backend */
    uint16_t pool_number;             /* in the order in which the backends name them */
};

/* Times that the file may state; 0 where it does not. */
struct tt_cluster_times {
    int64_t silence_ns, overdue_ns, fetch_ns, patience_ns, grace_ns, control_ns;
    int64_t plan_every_ns, plan_load_ns; /* between two plans; in which a plan's models load */
    int64_t plan_moves;                  /* models that a plan moves at most */
    int64_t vacancy_ns;
};

struct tt_cluster_file {
    struct tt_cluster_place *places; /* [count] */
    int64_t capacity;
    int32_t count;
    struct tt_cluster_times times;
    uint64_t digest; /* of places and times */
    char *plan;      /* the latest one, as the coordination service has it; NULL: none */
};

/* Reads the file. Errors: NOT_FOUND, IO, NO_MEMORY; INVALID: the message has the line. */
TT_MUST_CHECK enum tt_err tt_cluster_file_read(const char *path, struct tt_cluster_file *out_file,
                                               struct tt_error *why);
/* The same from memory; `path` is for messages. */
TT_MUST_CHECK enum tt_err tt_cluster_file_parse(const char *path, const char *text,
                                                struct tt_cluster_file *out_file,
                                                struct tt_error *why);
void tt_cluster_file_fini(struct tt_cluster_file *self);
/* The node's address and its size in bytes; may wait for DNS. Errors: INVALID. */
TT_MUST_CHECK enum tt_err tt_cluster_place_resolve(const struct tt_cluster_place *place,
                                                   struct sockaddr_storage *out_address,
                                                   socklen_t *out_bytes, struct tt_error *why);
/* The same for a host that is an address, without DNS. False: the host is a name. */
bool tt_cluster_place_read(const struct tt_cluster_place *place,
                           struct sockaddr_storage *out_address);
/* The most that any backend has at once on a device. */
int32_t tt_cluster_file_grants(const struct tt_cluster_file *self);
/* The number of the node; -1: no node has this name. */
int32_t tt_cluster_file_find(const struct tt_cluster_file *self, const char *name);
/* "frontend", "scheduler", "backend". Static storage. */
const char *tt_cluster_role_name(enum tt_cluster_role role);
/* True: `name` is a role's, which is in *out_role. */
bool tt_cluster_role_parse(const char *name, enum tt_cluster_role *out_role);

#endif
