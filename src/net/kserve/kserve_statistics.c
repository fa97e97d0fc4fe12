/* Statistics of kserve_operations.h. */
#include "net/kserve/kserve_operations.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/instant.h"
#include "serve/catalogue.h"
#include "serve/model_stats.h"
#include "serve/port.h"

#include <stdlib.h>

static int64_t get(const struct tt_counter *counter) { return tt_counter_get(counter); }

static int64_t last_ms(const struct tt_model_stats *stats) {
    int64_t last_at = get(&stats->last_at);
    return last_at ? (tt_clock_wall() - (tt_clock_now() - last_at)) / TT_MS : 0;
}

static bool copy_batches(struct tt_kserve_model_statistics *to,
                         const struct tt_model_stats *stats) {
    for (int32_t rows = 1; rows <= TT_STATS_MAX_BATCH; rows++) {
        const struct tt_batch_stats *batch = &stats->by_size[rows];
        int64_t count = get(&batch->count);
        if (count == 0)
            continue;
        if (!TT_ARRAY_RESERVE(to->batches, &to->batch_capacity, to->batch_count + 1))
            return false;
        to->batches[to->batch_count++] =
            (struct tt_kserve_batches){.rows = rows,
                                       .count = count,
                                       .input_ns = get(&batch->input_ns),
                                       .infer_ns = get(&batch->infer_ns),
                                       .output_ns = get(&batch->output_ns)};
    }
    return true;
}

struct walk {
    struct tt_kserve_statistics *statistics;
    bool failed;
};

static void add_model(void *context, const char *name, const char *version,
                      const struct tt_model_stats *stats) {
    struct walk *walk = context;
    struct tt_kserve_statistics *statistics = walk->statistics;
    tt_assert(stats != NULL);
    if (!TT_ARRAY_RESERVE(statistics->models, &statistics->capacity, statistics->count + 1)) {
        walk->failed = true;
        return;
    }
    int64_t succeeded = get(&stats->succeeded);
    int64_t failed = get(&stats->failed) + get(&stats->cancelled) + get(&stats->rejected) +
                     tt_model_stats_dropped(stats);
    struct tt_kserve_model_statistics *model = &statistics->models[statistics->count++];
    *model = (struct tt_kserve_model_statistics){
        .name = name,
        .version = version,
        .last_inference_ms = last_ms(stats),
        .inference_count = get(&stats->rows),
        .execution_count = get(&stats->batches),
        .success = {succeeded, get(&stats->request_ns)},
        .fail = {failed, get(&stats->failed_ns)},
        .queue = {succeeded, get(&stats->queue_ns)},
        .input = {succeeded, get(&stats->input_ns)},
        .inference = {succeeded, get(&stats->infer_ns)},
        .output = {succeeded, get(&stats->output_ns)},
    };
    walk->failed |= !copy_batches(model, stats);
}

static enum tt_err end_walk(struct walk *walk, struct tt_kserve_statistics *out_statistics,
                            struct tt_error *why) {
    if (walk->failed) {
        tt_kserve_statistics_fini(walk->statistics);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the statistics");
    }
    *out_statistics = *walk->statistics;
    return TT_OK;
}

enum tt_err tt_kserve_statistics_of_all(struct tt_kserve_statistics *out_statistics,
                                        const struct tt_catalogue *catalogue,
                                        struct tt_error *why) {
    struct tt_kserve_statistics statistics = {.catalogue = tt_catalogue_ref(catalogue)};
    struct walk walk = {.statistics = &statistics};
    for (int32_t i = 0; catalogue && i < catalogue->count; i++) {
        const struct tt_catalogue_entry *entry = &catalogue->entries[i];
        if (entry->model)
            add_model(&walk, entry->name, entry->version, entry->stats);
    }
    return end_walk(&walk, out_statistics, why);
}

enum tt_err tt_kserve_statistics_init(struct tt_kserve_statistics *out_statistics,
                                      const struct tt_kserve_service *service,
                                      const struct tt_kserve_target *target, struct tt_error *why) {
    if (target) {
        enum tt_err err = tt_kserve_model_ready(service, target, why);
        if (err)
            return err;
    }
    struct tt_kserve_statistics statistics = {0};
    struct walk walk = {.statistics = &statistics};
    int64_t generation;
    do { /* again where the names are those of a catalogue that was published meanwhile */
        tt_kserve_statistics_fini(&statistics);
        generation = tt_port_generation(service->port);
        statistics.catalogue = tt_catalogue_ref(tt_port_catalogue(service->port));
        tt_serving_stats(service->port, target ? target->model : NULL,
                         target ? target->version : "", add_model, &walk);
    } while (!walk.failed && generation != tt_port_generation(service->port));
    return end_walk(&walk, out_statistics, why);
}

void tt_kserve_statistics_fini(struct tt_kserve_statistics *self) {
    for (int64_t i = 0; i < self->count; i++)
        free(self->models[i].batches);
    free(self->models);
    tt_catalogue_unref(self->catalogue);
    *self = (struct tt_kserve_statistics){0};
}
