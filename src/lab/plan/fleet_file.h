/* What a fleet must serve and what it may be made of (proto/fleet.proto in text form), checked and
 * with profiles made.
 *
 * Life: _open reads a file and rejects invalid ones with file:line; _close. Nothing changes it in
 * between. Implemented in fleet_file.c. */
#ifndef TT_LAB_PLAN_FLEET_FILE_H
#define TT_LAB_PLAN_FLEET_FILE_H

#include "core/profile.h"
#include "fleet.pb-c.h"

enum {
    TT_FLEET_MAX_MODELS = 256,
    TT_FLEET_MAX_TYPES = 16,
    TT_FLEET_MAX_HOURS = 168,
};

struct tt_fleet_type {
    const char *name; /* borrowed from the message */
    double price_per_hour;
    int64_t memory_bytes; /* 0: no limit */
    int32_t most;         /* 0: no limit */
};

struct tt_fleet_load {
    const char *name; /* borrowed from the message */
    int64_t slo_ns;
    const double *rates; /* [hour_count of the file, or 1]; borrowed */
    int32_t rate_count;
    int64_t static_bytes, dynamic_bytes;
    double dispersion;
    struct tt_profile *on[TT_FLEET_MAX_TYPES]; /* owned; NULL: that type cannot run it */
};

struct tt_fleet_file {
    Tutti__Fleet *message; /* owned */
    struct tt_fleet_load models[TT_FLEET_MAX_MODELS];
    struct tt_fleet_type types[TT_FLEET_MAX_TYPES];
    int32_t model_count, type_count, hour_count;
    double start_up_s;
    uint64_t seed;
};

/* Errors: NOT_FOUND, IO, NO_MEMORY; INVALID with file:line, what is wrong and what would be right.
 */
TT_MUST_CHECK enum tt_err tt_fleet_file_open(const char *path, struct tt_fleet_file **out_file,
                                             struct tt_error *why);
void tt_fleet_file_close(struct tt_fleet_file *take_file); /* NULL-safe */
/* Requests per second of a model in an hour. */
static inline double tt_fleet_rate(const struct tt_fleet_load *model, int32_t hour) {
    return model->rates[model->rate_count == 1 ? 0 : hour];
}

#endif
