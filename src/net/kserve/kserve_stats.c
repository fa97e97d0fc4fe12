/* The statistics' half of kserve_pages.h: the protocol's names, with their meaning there.
 *
 * Durations are sums over requests (inference_stats) or over executions (batch_stats), in ns;
 * queue, compute_input, compute_infer and compute_output add up to success but for the hand-over
 * between threads, which is counted as output. There is no response cache: its counts are zero. */
#include "net/kserve/kserve_pages.h"

#include "base/clock.h"
#include "base/instant.h"
#include "net/json/json_tensor.h"
#include "serve/model_stats.h"

#include <string.h>

struct page {
    struct tt_text *json;
    bool any;
};

static long long get(const struct tt_counter *counter) { return tt_counter_get(counter); }

static void duration(struct tt_text *json, const char *name, long long count, long long ns) {
    tt_text_printf(json, "\"%s\":{\"count\":%lld,\"ns\":%lld}", name, count, ns);
}

/* Milliseconds since 1970; 0: never. */
static long long last_ms(const struct tt_model_stats *stats) {
    int64_t last_at = get(&stats->last_at);
    return last_at ? (tt_clock_wall() - (tt_clock_now() - last_at)) / TT_MS : 0;
}

static void write_batches(struct tt_text *json, const struct tt_model_stats *stats) {
    bool any = false;
    tt_text_puts(json, ",\"response_stats\":{},\"batch_stats\":[");
    for (int32_t size = 1; size <= TT_STATS_MAX_BATCH; size++) {
        const struct tt_batch_stats *batch = &stats->by_size[size];
        long long count = get(&batch->count);
        if (count == 0)
            continue;
        tt_text_printf(json, "%s{\"batch_size\":%d,", any ? "," : "", size);
        duration(json, "compute_input", count, get(&batch->input_ns));
        tt_text_puts(json, ",");
        duration(json, "compute_infer", count, get(&batch->infer_ns));
        tt_text_puts(json, ",");
        duration(json, "compute_output", count, get(&batch->output_ns));
        tt_text_puts(json, "}");
        any = true;
    }
    tt_text_puts(json, "],\"memory_usage\":[]");
}

static void add_model(void *context, const char *name, const char *version,
                      const struct tt_model_stats *stats) {
    struct page *page = context;
    struct tt_text *json = page->json;
    long long count = get(&stats->succeeded);
    long long failed = get(&stats->failed) + get(&stats->cancelled) + get(&stats->rejected) +
                       tt_model_stats_dropped(stats);
    tt_text_puts(json, page->any ? ",{\"name\":" : "{\"name\":");
    tt_json_write_string(json, name, strlen(name));
    tt_text_puts(json, ",\"version\":");
    tt_json_write_string(json, version, strlen(version));
    tt_text_printf(json,
                   ",\"last_inference\":%lld,\"inference_count\":%lld,\"execution_count\":%lld,"
                   "\"inference_stats\":{",
                   last_ms(stats), get(&stats->rows), get(&stats->batches));
    const struct {
        const char *name;
        long long count, ns;
    } rows[] = {{"success", count, get(&stats->request_ns)},
                {"fail", failed, get(&stats->failed_ns)},
                {"queue", count, get(&stats->queue_ns)},
                {"compute_input", count, get(&stats->input_ns)},
                {"compute_infer", count, get(&stats->infer_ns)},
                {"compute_output", count, get(&stats->output_ns)},
                {"cache_hit", 0, 0},
                {"cache_miss", 0, 0}};
    for (size_t i = 0; i < TT_COUNT(rows); i++) {
        tt_text_puts(json, i ? "," : "");
        duration(json, rows[i].name, rows[i].count, rows[i].ns);
    }
    tt_text_puts(json, "}");
    write_batches(json, stats);
    tt_text_puts(json, "}");
    page->any = true;
}

void tt_page_stats(const struct tt_route_world *world, const char *model, const char *version,
                   struct tt_reply *reply) {
    struct page page = {.json = tt_reply_json(reply)};
    tt_text_puts(page.json, "{\"model_stats\":[");
    tt_serving_stats(world->port, model, version, add_model, &page);
    tt_text_puts(page.json, "]}");
}
