#include "fleet/placement_service.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/log/log.h"
#include "fleet/live_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOVES_PER_PLAN = 10 }; /* the default: one of so many models moves */

/* ---- life ---- */

enum tt_err tt_placement_service_init(struct tt_placement_service *self, struct tt_fleet_node *node,
                                      struct tt_scheduler_role *role) {
    size_t models = (size_t)tt_cluster_model_capacity(role->settings);
    tt_assert(models > 0);
    *self = (struct tt_placement_service){.node = node,
                                          .role = role,
                                          .look_at = TT_NEVER,
                                          .counted = calloc(models, sizeof(*self->counted))};
    tt_text_init(&self->last);
    return self->counted ? TT_OK : TT_ERR_NO_MEMORY;
}

/* ---- searches ---- */

struct tt_placement_search {
    uv_work_t work;
    struct tt_placement_service *owner; /* NULL: it is not wanted any more */
    struct tt_flag stopping;
    struct tt_cluster_settings settings; /* a copy: models may come meanwhile */
    struct tt_live_load load;
    uint16_t *homes, *found; /* [capacity] */
    int64_t *rows;           /* [capacity] */
    int32_t *devices;        /* [pool_count] */
    bool *served;            /* [capacity] */
    /* The answer. */
    enum tt_err err;
    struct tt_error why;
    struct tt_live_plan plan;
};

static void free_search(struct tt_placement_search *take_search) {
    if (!take_search)
        return;
    free(take_search->homes);
    free(take_search->found);
    free(take_search->rows);
    free(take_search->devices);
    free(take_search->served);
    free(take_search);
}

static void forget_search(struct tt_placement_service *self) {
    if (!self->search)
        return;
    self->search->owner = NULL;
    tt_flag_raise(&self->search->stopping);
    self->search = NULL;
}

void tt_placement_service_fini(struct tt_placement_service *self) {
    forget_search(self);
    tt_text_fini(&self->last);
    free(self->counted);
    *self = (struct tt_placement_service){.node = NULL};
}

static void note(struct tt_placement_service *self, enum tt_log_level level) {
    tt_log_write(tt_fleet_node_options(self->node)->log, level, NULL, "cluster: %s",
                 tt_text_string(&self->last));
}

static bool goes_on(void *context, double share) {
    (void)share;
    const struct tt_placement_search *search = context;
    return !tt_flag_is_raised(&search->stopping);
}

/* On a thread of its own. */
static void on_work(uv_work_t *work) {
    struct tt_placement_search *search = work->data;
    const struct tt_place_effort effort = {
        .moves = TT_PLACE_MOVES_PER_SECOND, .goes_on = goes_on, .context = search};
    search->err =
        tt_live_plan_make(&search->load, &effort, search->found, &search->plan, &search->why);
}

static void on_found(uv_work_t *work, int status) {
    struct tt_placement_search *search = work->data;
    struct tt_placement_service *self = search->owner;
    if (self) {
        self->search = NULL;
        tt_text_clear(&self->last);
        enum tt_err err = status ? TT_ERR_UNAVAILABLE : search->err;
        for (int32_t i = search->settings.model_count; i < self->role->settings->model_count; i++)
            search->found[i] = self->role->models.placement.homes[i];
        if (!err)
            err = tt_scheduler_role_place(self->role, tt_clock_now(), search->found, &search->why);
        if (err)
            tt_text_printf(&self->last, "no plan was made: %s", search->why.text);
        else
            tt_text_printf(&self->last,
                           "a plan of %" PRId32 " move%s is under way: the largest deviation of a "
                           "pool's load from its share goes from %.0f %% to %.0f %%",
                           search->plan.moves, tt_plural(search->plan.moves),
                           100 * search->plan.before, 100 * search->plan.after);
        note(self, TT_LOG_INFO);
        tt_fleet_node_wake(self->node);
    }
    free_search(search);
}

/* Models that clients unloaded, or that others have replaced, stay in the table. */
static void find_served(const struct tt_placement_service *self, bool *out_served) {
    const struct tt_cluster_settings *settings = self->role->settings;
    for (int32_t i = 0; i < settings->model_count; i++)
        out_served[i] = self->role->models.back[tt_cluster_group(settings, (uint16_t)i)].serves;
}

static struct tt_placement_search *new_search(const struct tt_placement_service *self,
                                              int64_t now) {
    const struct tt_cluster_settings *settings = self->role->settings;
    size_t models = (size_t)settings->model_count;
    size_t capacity = (size_t)tt_cluster_model_capacity(settings);
    int64_t moves = tt_fleet_node_times(self->node)->plan_moves;
    struct tt_placement_search *search = calloc(1, sizeof(*search));
    if (!search)
        return NULL;
    search->homes = calloc(capacity, sizeof(*search->homes));
    search->found = calloc(capacity, sizeof(*search->found));
    search->rows = calloc(capacity, sizeof(*search->rows));
    search->devices = calloc((size_t)self->role->pool_count, sizeof(*search->devices));
    search->served = calloc(capacity, sizeof(*search->served));
    if (!search->homes || !search->found || !search->rows || !search->devices || !search->served) {
        free_search(search);
        return NULL;
    }
    for (size_t i = 0; i < models; i++) {
        search->homes[i] = self->role->models.placement.homes[i];
        search->rows[i] = self->role->tickets[i] - self->counted[i];
    }
    for (int32_t i = 0; i < self->role->pool_count; i++)
        search->devices[i] = tt_scheduler_pool_usable(&self->role->pools[i]);
    find_served(self, search->served);
    int32_t usual = settings->model_count / MOVES_PER_PLAN;
    search->settings = *settings;
    search->load = (struct tt_live_load){.settings = &search->settings,
                                         .homes = search->homes,
                                         .rows = search->rows,
                                         .devices = search->devices,
                                         .served = search->served,
                                         .span_ns = tt_instant_max(now - self->counted_at, 1),
                                         .max_moves = moves > 0   ? (int32_t)moves
                                                      : usual > 0 ? usual
                                                                  : 1};
    search->work.data = search;
    return search;
}

/* The loads are counted anew from now on. */
static void count_anew(struct tt_placement_service *self, int64_t now) {
    int64_t every_ns = tt_fleet_node_times(self->node)->plan_every_ns;
    for (int32_t i = 0; i < self->role->settings->model_count; i++)
        self->counted[i] = self->role->tickets[i];
    self->counted_at = now;
    self->look_at = every_ns > 0 ? tt_instant_add(now, every_ns) : TT_NEVER;
}

static enum tt_err begin_search(struct tt_placement_service *self, int64_t now,
                                struct tt_error *why) {
    if (!self->role->is_primary)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "this scheduler is a spare; the primary plans");
    if (self->search || self->role->models.placement.stage != TT_PLACEMENT_NONE)
        return tt_fail(TT_ERR_BUSY, why, "a plan is under way or searched");
    if (self->role->pool_count == 1)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "all backends are one pool; pool=NAME in their lines makes several");
    struct tt_placement_search *search = new_search(self, now);
    if (!search ||
        uv_queue_work(tt_fleet_node_loop(self->node), &search->work, on_work, on_found)) {
        free_search(search);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    search->owner = self;
    self->search = search;
    count_anew(self, now);
    return TT_OK;
}

void tt_placement_service_tick(struct tt_placement_service *self, int64_t now) {
    uint64_t epoch = self->role->is_primary ? self->role->primary.epoch : 0;
    if (epoch != self->epoch) {
        self->epoch = epoch;
        forget_search(self); /* it began with the homes of another term */
        count_anew(self, now);
    }
    if (epoch == 0 || now < self->look_at)
        return;
    if (self->is_held) {
        count_anew(self, now);
        return;
    }
    struct tt_error why;
    if (begin_search(self, now, &why)) { /* something is under way: the next look is later */
        tt_text_clear(&self->last);
        tt_text_printf(&self->last, "no plan was made: %s", why.text);
        count_anew(self, now);
    }
}

int64_t tt_placement_service_next_at(const struct tt_placement_service *self) {
    uint64_t epoch = self->role->is_primary ? self->role->primary.epoch : 0;
    if (epoch != self->epoch)
        return 0;
    return epoch != 0 ? self->look_at : TT_NEVER;
}

enum tt_placement_mode tt_placement_service_mode(const struct tt_placement_service *self) {
    if (tt_fleet_node_times(self->node)->plan_every_ns <= 0)
        return TT_PLACEMENT_BY_COMMAND;
    return self->is_held ? TT_PLACEMENT_HELD : TT_PLACEMENT_BY_ITSELF;
}

/* ---- what becomes of plans ---- */

void tt_placement_service_placed(struct tt_placement_service *self,
                                 const struct tt_placement_outcome *outcome, const char *reasons) {
    bool is_done = outcome->end == TT_PLACEMENT_DONE;
    is_done ? self->done++ : self->dropped++;
    tt_text_clear(&self->last);
    tt_placement_put_outcome(self->role->settings, outcome, &self->last);
    if (outcome->end == TT_PLACEMENT_FAILED && *reasons)
        tt_text_printf(&self->last, " (%s)", reasons);
    note(self, is_done ? TT_LOG_INFO : TT_LOG_WARNING);
}

/* ---- commands ---- */

/* One "MODEL=POOL"; the model's versions follow it. */
static enum tt_err read_move(const struct tt_placement_service *self, char *move, uint16_t *homes,
                             struct tt_error *why) {
    const struct tt_cluster_settings *settings = self->role->settings;
    char *equals = strrchr(move, '=');
    if (!equals)
        return tt_fail(TT_ERR_INVALID, why, "'%.100s' is no move; one is MODEL=POOL", move);
    *equals = '\0';
    int32_t group = tt_fleet_models_group(tt_fleet_node_models(self->node), move);
    int32_t pool = tt_placement_find_pool(settings, equals + 1);
    if (group < 0)
        return tt_fail(TT_ERR_NOT_FOUND, why, "there is no model '%.100s'", move);
    if (pool < 0)
        return tt_fail(TT_ERR_NOT_FOUND, why, "there is no pool '%.100s'", equals + 1);
    homes[group] = (uint16_t)pool;
    return TT_OK;
}

static enum tt_err move(struct tt_placement_service *self, int64_t now, const char *moves,
                        struct tt_error *why) {
    size_t models = (size_t)self->role->settings->model_count;
    uint16_t *homes = calloc(models, sizeof(*homes));
    bool *served = calloc(models, sizeof(*served));
    char *copy = strdup(moves), *rest = NULL;
    enum tt_err err =
        homes && served && copy ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (size_t i = 0; !err && i < models; i++)
        homes[i] = self->role->models.placement.homes[i];
    for (char *word = err ? NULL : strtok_r(copy, "\t", &rest); !err && word;
         word = strtok_r(NULL, "\t", &rest))
        err = read_move(self, word, homes, why);
    if (!err) {
        find_served(self, served);
        err = tt_live_plan_fits(self->role->settings, served, self->role->models.placement.homes,
                                homes, why);
    }
    if (!err)
        err = tt_scheduler_role_place(self->role, now, homes, why);
    if (!err)
        forget_search(self); /* it began with other homes */
    free(homes);
    free(served);
    free(copy);
    return err;
}

/* The plan under way, or those to come. */
static enum tt_err stop(const struct tt_placement_service *self, struct tt_error *why) {
    bool is_planning = self->search || tt_placement_service_mode(self) == TT_PLACEMENT_BY_ITSELF;
    if (is_planning && self->role->models.placement.stage == TT_PLACEMENT_NONE)
        return TT_OK;
    return tt_scheduler_role_stop_plan(self->role, why);
}

/* What was stopped or undone is not planned again before a plan is asked for. Spares keep that for
 * the time when they are primary. */
static enum tt_err hold(struct tt_placement_service *self, int64_t now, bool undoes,
                        struct tt_error *why) {
    enum tt_err err = TT_OK;
    if (self->role->is_primary)
        err = undoes ? tt_scheduler_role_undo_plan(self->role, now, why) : stop(self, why);
    if (err)
        return err;
    forget_search(self);
    self->is_held = true;
    return TT_OK;
}

static enum tt_err plan(struct tt_placement_service *self, int64_t now, struct tt_error *why) {
    enum tt_err err = self->role->is_primary ? begin_search(self, now, why) : TT_OK;
    if (!err)
        self->is_held = false;
    return err;
}

enum tt_err tt_placement_service_command(struct tt_placement_service *self, int64_t now,
                                         const char *command, struct tt_text *out_answer,
                                         struct tt_error *why) {
    static const char moves[] = "move\t";
    enum tt_err err = TT_OK;
    if (strcmp(command, "plan") == 0)
        err = plan(self, now, why);
    else if (strncmp(command, moves, sizeof(moves) - 1) == 0)
        err = move(self, now, command + sizeof(moves) - 1, why);
    else if (strcmp(command, "stop") == 0 || strcmp(command, "undo") == 0)
        err = hold(self, now, *command == 'u', why);
    else if (strcmp(command, "show") != 0)
        err = tt_fail(TT_ERR_INVALID, why, "'%.40s' is no command about the placement", command);
    return err ? err : tt_placement_service_show(self, out_answer, why);
}
