#include "serve/cell_metrics.h"

#include "serve/served_model.h"

struct family {
    const char *name, *help;
    size_t offset; /* of the counter in struct tt_cell_stats */
};

static const struct family families[] = {
    {"tutti_cells_total", "Cells that ran, by type, those beyond an end of sequence too",
     offsetof(struct tt_cell_stats, cells)},
    {"tutti_cell_tasks_total", "Batches of cells that ran, by type",
     offsetof(struct tt_cell_stats, tasks)},
    {"tutti_cell_gathered_bytes_total",
     "Bytes of states and inputs copied to make batches of cells contiguous",
     offsetof(struct tt_cell_stats, gathered_bytes)},
    {"tutti_cell_spared_bytes_total", "Bytes of states that batches of cells read where they lay",
     offsetof(struct tt_cell_stats, spared_bytes)},
};

struct page {
    struct tt_text *text;
    void (*labels)(struct tt_text *page, const struct tt_catalogue_entry *model);
};

static void line(const struct page *page, const char *name, const char *suffix,
                 const struct tt_catalogue_entry *model, int32_t type) {
    tt_text_printf(page->text, "%s%s", name, suffix);
    page->labels(page->text, model);
    /* Names of cells are file names or words of tutti.pbtxt, which allows no quotes in them. */
    tt_text_printf(page->text, ",cell=\"%s\"", model->model->cells->cells->types[type].name);
}

static void family(const struct page *page, const struct tt_catalogue *catalogue,
                   const struct family *family) {
    tt_text_printf(page->text, "# HELP %s %s\n# TYPE %s counter\n", family->name, family->help,
                   family->name);
    for (int32_t m = 0; m < catalogue->count; m++) {
        const struct tt_catalogue_entry *model = &catalogue->entries[m];
        if (!model->stats || !model->model || !model->model->cells)
            continue;
        for (int32_t t = 0; t < model->model->cells->cells->type_count; t++) {
            const void *stats = (const char *)&model->stats->cells[t] + family->offset;
            line(page, family->name, "", model, t);
            tt_text_printf(page->text, "} %lld\n", (long long)tt_counter_get(stats));
        }
    }
}

static void batch_sizes(const struct page *page, const struct tt_catalogue_entry *model,
                        int32_t type) {
    static const char name[] = "tutti_cell_batch_size";
    const struct tt_cell_stats *stats = &model->stats->cells[type];
    int64_t cumulative = 0;
    for (int32_t i = 0; i < TT_BATCH_BUCKETS; i++) {
        cumulative += tt_counter_get(&stats->batch_buckets[i]);
        line(page, name, "_bucket", model, type);
        if (i < TT_BATCH_BUCKETS - 1)
            tt_text_printf(page->text, ",le=\"%d\"} %lld\n", 1 << i, (long long)cumulative);
        else
            tt_text_printf(page->text, ",le=\"+Inf\"} %lld\n", (long long)cumulative);
    }
    line(page, name, "_sum", model, type);
    tt_text_printf(page->text, "} %lld\n", (long long)tt_counter_get(&stats->cells));
    line(page, name, "_count", model, type);
    tt_text_printf(page->text, "} %lld\n", (long long)cumulative);
}

static bool emits(const struct tt_catalogue_entry *model) {
    return model->stats && model->model && model->model->cells &&
           model->model->cells->cells->kind == TT_UNFOLD_SEQ2SEQ;
}

static void output_lengths(const struct page *page, const struct tt_catalogue_entry *model) {
    const struct tt_length_histogram *outputs = &model->stats->outputs;
    int64_t cumulative = 0;
    for (int32_t i = 0; i < TT_OUTPUT_BUCKETS; i++) {
        cumulative += tt_counter_get(&outputs->counts[i]);
        tt_text_puts(page->text, "tutti_output_length_bucket");
        page->labels(page->text, model);
        if (i < TT_OUTPUT_BUCKETS - 1)
            tt_text_printf(page->text, ",le=\"%d\"} %lld\n", tt_length_histogram_bound(i),
                           (long long)cumulative);
        else
            tt_text_printf(page->text, ",le=\"+Inf\"} %lld\n", (long long)cumulative);
    }
    tt_text_puts(page->text, "tutti_output_length_sum");
    page->labels(page->text, model);
    tt_text_printf(page->text, "} %lld\n", (long long)tt_counter_get(&outputs->sum));
    tt_text_puts(page->text, "tutti_output_length_count");
    page->labels(page->text, model);
    tt_text_printf(page->text, "} %lld\n", (long long)cumulative);
}

/* L3 */
static void all_output_lengths(const struct page *page, const struct tt_catalogue *catalogue) {
    bool any = false;
    for (int32_t m = 0; m < catalogue->count; m++)
        any |= emits(&catalogue->entries[m]);
    if (!any)
        return;
    tt_text_puts(page->text, "# HELP tutti_output_length Elements that answers turned out to have\n"
                             "# TYPE tutti_output_length histogram\n");
    for (int32_t m = 0; m < catalogue->count; m++)
        if (emits(&catalogue->entries[m]))
            output_lengths(page, &catalogue->entries[m]);
    tt_text_puts(page->text,
                 "# HELP tutti_output_at_limit_total Answers that have all the elements they may\n"
                 "# TYPE tutti_output_at_limit_total counter\n");
    for (int32_t m = 0; m < catalogue->count; m++) {
        const struct tt_catalogue_entry *model = &catalogue->entries[m];
        if (!emits(model))
            continue;
        tt_text_puts(page->text, "tutti_output_at_limit_total");
        page->labels(page->text, model);
        tt_text_printf(page->text, "} %lld\n",
                       (long long)tt_counter_get(&model->stats->outputs.at_limit));
    }
}

void tt_cell_metrics(const struct tt_catalogue *catalogue, struct tt_text *page,
                     void (*labels)(struct tt_text *page, const struct tt_catalogue_entry *model)) {
    const struct page writing = {.text = page, .labels = labels};
    bool any = false;
    for (int32_t m = 0; catalogue && m < catalogue->count; m++)
        any |= catalogue->entries[m].model && catalogue->entries[m].model->cells;
    if (!any)
        return;
    for (size_t i = 0; i < TT_COUNT(families); i++)
        family(&writing, catalogue, &families[i]);
    tt_text_puts(page, "# HELP tutti_cell_batch_size Cells per batch, by type\n"
                       "# TYPE tutti_cell_batch_size histogram\n");
    for (int32_t m = 0; m < catalogue->count; m++) {
        const struct tt_catalogue_entry *model = &catalogue->entries[m];
        if (model->stats && model->model && model->model->cells)
            for (int32_t t = 0; t < model->model->cells->cells->type_count; t++)
                batch_sizes(&writing, model, t);
    }
    all_output_lengths(&writing, catalogue);
}
