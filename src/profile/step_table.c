#include "profile/step_table.h"

#include "model/text/csv.h"
#include "profile/profile_builder.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 4096, MAX_POINTS = 65536 };

struct reading {
    struct tt_csv csv;
    int32_t step, kind, batch, latency, length, demand;
    int32_t max_batch;
    struct tt_step_table table;
    struct tt_profile_builder builder; /* of the current step */
};

static enum tt_err find_columns(struct reading *r, struct tt_error *why) {
    r->step = tt_csv_column(&r->csv, "step");
    r->kind = tt_csv_column(&r->csv, "kind");
    r->batch = tt_csv_column(&r->csv, "batch");
    r->latency = tt_csv_column(&r->csv, "latency_ns");
    r->length = tt_csv_column(&r->csv, "length");
    r->demand = tt_csv_column(&r->csv, "demand");
    if (r->step < 0 || r->kind < 0 || r->batch < 0 || r->latency < 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s:1: a table of steps needs the columns step, kind, batch, latency_ns",
                       r->csv.path);
    return TT_OK;
}

/* Called when all rows of one step were read. */
static enum tt_err close_step(struct reading *r, struct tt_error *why) {
    struct tt_step_table *table = &r->table;
    if (table->count == 0)
        return TT_OK;
    tt_assert(r->builder.count > 0 || r->builder.failed);
    tt_assert(!table->profiles[table->count - 1]);
    enum tt_err err = tt_profile_builder_finish(&r->builder, r->max_batch,
                                                &table->profiles[table->count - 1], why);
    return err ? tt_fail_in(err, why, "%s: step '%s'", r->csv.path, table->names[table->count - 1])
               : TT_OK;
}

static enum tt_err open_step(struct reading *r, const char *name, const char *kind,
                             struct tt_error *why) {
    static const char *const kinds[] = {
        [TT_STEP_STATIC] = "static", [TT_STEP_ENCODER] = "encoder", [TT_STEP_DECODER] = "decoder"};
    struct tt_step_table *table = &r->table;
    enum tt_err err = close_step(r, why);
    if (err)
        return err;
    for (int32_t i = 0; i < table->count; i++)
        if (strcmp(table->names[i], name) == 0)
            return tt_fail(TT_ERR_INVALID, why,
                           "%s:%lld: step '%s' goes on here; its rows must be adjacent",
                           r->csv.path, (long long)r->csv.line, name);
    size_t k = 0;
    while (k < TT_COUNT(kinds) && strcmp(kinds[k], kind) != 0)
        k++;
    if (k == TT_COUNT(kinds))
        return tt_fail(TT_ERR_INVALID, why,
                       "%s:%lld: kind is '%s'; it must be static, encoder or decoder", r->csv.path,
                       (long long)r->csv.line, kind);
    if (table->count == MAX_STEPS)
        return tt_fail(TT_ERR_INVALID, why, "%s:%lld: more than %d steps", r->csv.path,
                       (long long)r->csv.line, MAX_STEPS);
    tt_assert(r->builder.count == 0); /* the step before took its points */
    table->names[table->count] = strdup(name);
    if (!table->names[table->count])
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", r->csv.path);
    table->kinds[table->count++] = (enum tt_step_kind)k;
    return TT_OK;
}

static enum tt_err read_row(struct reading *r, struct tt_error *why) {
    const struct tt_step_table *table = &r->table;
    const char *name = r->csv.fields[r->step], *kind = r->csv.fields[r->kind];
    enum tt_err err = TT_OK;
    if (table->count == 0 || strcmp(table->names[table->count - 1], name) != 0)
        err = open_step(r, name, kind, why);
    int64_t batch = 0, latency_ns = 0, length = 0;
    double demand = 0;
    if (!err)
        err = tt_csv_integer(&r->csv, r->batch, 1, TT_PROFILE_MAX_BATCH, &batch, why);
    if (!err)
        err = tt_csv_integer(&r->csv, r->latency, 1, INT64_MAX / 4, &latency_ns, why);
    if (!err && r->length >= 0)
        err = tt_csv_integer(&r->csv, r->length, 0, INT32_MAX, &length, why);
    if (!err && r->demand >= 0)
        err = tt_csv_number(&r->csv, r->demand, 1e-6, 1, &demand, why);
    if (!err && r->builder.count == MAX_POINTS)
        err = tt_fail(TT_ERR_INVALID, why, "%s:%lld: more than %d points for step '%s'",
                      r->csv.path, (long long)r->csv.line, MAX_POINTS, name);
    if (err)
        return err;
    tt_profile_builder_add(
        &r->builder,
        (struct tt_profile_point){.batch = (int32_t)batch,
                                  .latency_ns = latency_ns,
                                  .length = (int32_t)length,
                                  .demand_ppm = (int32_t)(demand * TT_DEMAND_WHOLE + 0.5)});
    return TT_OK;
}

static enum tt_err read_rows(struct reading *r, struct tt_error *why) {
    enum tt_err err = find_columns(r, why);
    for (bool more = !err; more;) {
        err = tt_csv_next(&r->csv, &more, why);
        if (!err && more)
            err = read_row(r, why);
        if (err)
            return err;
    }
    if (!err && r->table.count == 0)
        return tt_fail(TT_ERR_INVALID, why, "%s: there is no step in the table", r->csv.path);
    return err ? err : close_step(r, why);
}

enum tt_err tt_step_table_read(const char *path, int32_t max_batch, struct tt_step_table *out_table,
                               struct tt_error *why) {
    struct reading *r = calloc(1, sizeof(*r));
    if (!r)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
    r->max_batch = max_batch;
    r->table.names = calloc(MAX_STEPS, sizeof(char *));
    r->table.kinds = calloc(MAX_STEPS, sizeof(*r->table.kinds));
    r->table.profiles = calloc(MAX_STEPS, sizeof(struct tt_profile *));
    enum tt_err err = TT_OK;
    if (!r->table.names || !r->table.kinds || !r->table.profiles)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
    if (!err)
        err = tt_csv_open(&r->csv, path, why);
    if (!err) {
        err = read_rows(r, why);
        tt_csv_close(&r->csv);
    }
    if (err)
        tt_step_table_fini(&r->table);
    else
        *out_table = r->table;
    free(r->builder.points);
    free(r);
    return err;
}

void tt_step_table_fini(struct tt_step_table *self) {
    for (int32_t i = 0; i < self->count; i++) {
        free(self->names[i]);
        tt_profile_free(self->profiles[i]);
    }
    free(self->names);
    free(self->kinds);
    free(self->profiles);
    *self = (struct tt_step_table){0};
}
