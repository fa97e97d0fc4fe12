#include "control/model_entry.h"

#include "serve/domain.h"
#include "serve/served_model_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tt_model_entry *tt_model_entry_get(struct tt_model_entry **list, const char *name) {
    struct tt_model_entry **at = list;
    while (*at && strcmp((*at)->name, name) < 0)
        at = &(*at)->next;
    if (*at && strcmp((*at)->name, name) == 0)
        return *at;
    struct tt_model_entry *entry = calloc(1, sizeof(*entry));
    char *copy = strdup(name);
    if (!entry || !copy) {
        free(entry);
        free(copy);
        return NULL;
    }
    entry->name = copy;
    entry->next = *at;
    *at = entry;
    return entry;
}

struct tt_version_entry *tt_version_entry_get(struct tt_model_entry *model, const char *number) {
    struct tt_version_entry *version = model->versions;
    while (version && strcmp(version->number, number) != 0)
        version = version->next;
    if (version)
        return version;
    version = calloc(1, sizeof(*version));
    if (!version)
        return NULL;
    tt_assert(strlen(number) < sizeof(version->number));
    snprintf(version->number, sizeof(version->number), "%s", number);
    version->next = model->versions;
    model->versions = version;
    return version;
}

/* The legal moves of a version. It is KNOWN only until its first load. A version that serves
 * continues to serve during a load, and leaves before it is UNAVAILABLE, so it goes from READY to
 * UNLOADING; if it failed, to UNAVAILABLE at once. The folder may change between the announcement
 * of a load and the load itself, so any other version may turn out READY, gone, or still leaving.
 */
static bool may_move(enum tt_model_state from, enum tt_model_state to) {
    switch (from) {
    case TT_MODEL_KNOWN: return to != TT_MODEL_KNOWN && to != TT_MODEL_UNLOADING;
    case TT_MODEL_READY:
        return to == TT_MODEL_READY || to == TT_MODEL_UNLOADING || to == TT_MODEL_UNAVAILABLE;
    case TT_MODEL_LOADING:
    case TT_MODEL_UNLOADING:
    case TT_MODEL_UNAVAILABLE: return to != TT_MODEL_KNOWN;
    }
    return false;
}

static void version_check(const struct tt_version_entry *self) {
    tt_assert((self->model != NULL) == (self->state == TT_MODEL_READY));
    tt_assert(self->leaving_count >= 0);
    tt_assert(self->state != TT_MODEL_UNLOADING || self->leaving_count > 0);
    tt_assert(!self->model || self->stats);
    tt_assert(!self->model || strcmp(self->model->version, self->number) == 0);
}

void tt_version_entry_set(struct tt_version_entry *self, enum tt_model_state state,
                          const char *reason) {
    tt_assert(may_move(self->state, state));
    self->state = state;
    snprintf(self->reason, sizeof(self->reason), "%s", reason);
    version_check(self);
}

void tt_model_entries_check(const struct tt_model_entry *list, int32_t leaving_count) {
    int32_t leaving = 0;
    for (const struct tt_model_entry *model = list; model; model = model->next) {
        tt_assert(!model->next || strcmp(model->name, model->next->name) < 0);
        for (const struct tt_version_entry *v = model->versions; v; v = v->next) {
            version_check(v);
            leaving += v->leaving_count;
            for (const struct tt_version_entry *other = v->next; other; other = other->next)
                tt_assert(strcmp(v->number, other->number) != 0);
        }
    }
    tt_assert(leaving == leaving_count);
}

int32_t tt_model_entry_note_policy(struct tt_model_entry *self,
                                   const struct tt_policy_candidate *candidate, int64_t changed_at,
                                   int32_t changes) {
    int32_t count = 0;
    for (struct tt_version_entry *version = self->versions; version; version = version->next) {
        const struct tt_served_model *model = version->model;
        const struct tt_domain *domain = model && model->choice ? model->domain : NULL;
        if (!domain || !tt_policy_candidate_matches(candidate, domain->policy, domain->options,
                                                    domain->option_count))
            continue;
        tt_counter_add(&version->stats->auto_changes, changes);
        tt_counter_set(&version->stats->auto_changed_at, changed_at);
        count++;
    }
    return count;
}

bool tt_model_entry_serves(const struct tt_model_entry *self) {
    for (const struct tt_version_entry *version = self->versions; version; version = version->next)
        if (version->model)
            return true;
    return false;
}

void tt_model_entry_fail(struct tt_model_entry *self, const struct tt_repository_model *model,
                         const char *failed, const char *reason) {
    char text[sizeof(self->versions->reason) + 128]; /* with what is put before the reason */
    bool is_shown = false;
    int32_t count = model ? model->version_count : 0;
    for (int32_t i = 0; i < count || i == 0; i++) {
        long long number = count ? (long long)model->versions[i].number : 1;
        snprintf(text, sizeof(text), "%lld", number); /* without versions only the name is known */
        struct tt_version_entry *version = tt_version_entry_get(self, text);
        if (!version || version->model)
            continue;
        bool is_it = !failed || strcmp(failed, text) == 0;
        tt_version_entry_set(version, TT_MODEL_UNAVAILABLE,
                             is_it ? reason
                                   : "not loaded, because another version of the model failed");
        is_shown |= is_it;
    }
    snprintf(text, sizeof(text), "serves what was loaded before; the last load failed: %s", reason);
    for (struct tt_version_entry *version = self->versions; version; version = version->next)
        if (version->model && !is_shown)
            tt_version_entry_set(version, TT_MODEL_READY, text);
}

static void entry_free(struct tt_model_entry *entry) {
    for (struct tt_version_entry *version = entry->versions, *next; version; version = next) {
        next = version->next;
        tt_assert(version->model == NULL);
        tt_model_stats_unref(version->stats);
        free(version);
    }
    tt_repository_free(entry->ensemble);
    tt_repository_free(entry->pending);
    free(entry->name);
    free(entry);
}

void tt_model_entries_free(struct tt_model_entry *take_list) {
    for (struct tt_model_entry *entry = take_list, *next; entry; entry = next) {
        next = entry->next;
        entry_free(entry);
    }
}

static bool may_be_forgotten(const struct tt_model_entry *entry) {
    for (const struct tt_version_entry *version = entry->versions; version; version = version->next)
        if (version->model || version->leaving_count > 0 || version->state == TT_MODEL_LOADING)
            return false;
    return !entry->is_on_disk && entry->load_number > 0;
}

int32_t tt_model_entries_forget(struct tt_model_entry **list, int32_t most) {
    int32_t forgotten = 0;
    for (;;) {
        struct tt_model_entry **oldest = NULL;
        int32_t count = 0;
        for (struct tt_model_entry **at = list; *at; at = &(*at)->next) {
            if (!may_be_forgotten(*at))
                continue;
            count++;
            if (!oldest || (*at)->load_number < (*oldest)->load_number)
                oldest = at;
        }
        if (count <= most)
            return forgotten;
        tt_assert(oldest != NULL);
        struct tt_model_entry *entry = *oldest;
        *oldest = entry->next;
        entry_free(entry);
        forgotten++;
    }
}

static enum tt_err add(struct tt_catalogue *catalogue, const struct tt_model_entry *model,
                       const struct tt_version_entry *version) {
    struct tt_catalogue_entry entry = {
        .name = model->name, .version = (char[]){""}, .is_wanted = model->is_wanted};
    if (version) {
        entry.version = (char *)version->number;
        entry.state = version->state;
        entry.reason = (char *)version->reason;
        entry.model = version->model;
        entry.stats = version->stats;
    }
    return tt_catalogue_add(catalogue, &entry);
}

struct tt_catalogue *tt_model_entries_catalogue(const struct tt_model_entry *list) {
    int32_t count = 0;
    for (const struct tt_model_entry *model = list; model; model = model->next) {
        count++;
        for (const struct tt_version_entry *v = model->versions; v; v = v->next)
            count++;
    }
    struct tt_catalogue *catalogue = tt_catalogue_new(count);
    enum tt_err err = catalogue ? TT_OK : TT_ERR_NO_MEMORY;
    for (const struct tt_model_entry *model = list; model && !err; model = model->next) {
        if (!model->versions && (model->is_on_disk || model->is_wanted))
            err = add(catalogue, model, NULL);
        for (const struct tt_version_entry *v = model->versions; v && !err; v = v->next)
            err = add(catalogue, model, v);
    }
    if (err) {
        tt_catalogue_unref(catalogue);
        return NULL;
    }
    tt_catalogue_seal(catalogue);
    return catalogue;
}
