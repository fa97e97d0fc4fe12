#include "fleet/placement_record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void tt_placement_record_put(const struct tt_placement *placement, uint64_t epoch,
                             struct tt_text *out) {
    const struct tt_cluster_settings *settings = placement->settings;
    bool is_begun = tt_placement_is_open(placement);
    tt_text_printf(out, "%" PRIu64 "\n%" PRIu64 " %s\n", epoch, placement->version,
                   is_begun ? "begun" : "done");
    for (int32_t i = 0; i < settings->model_count; i++)
        if (tt_cluster_group(settings, (uint16_t)i) == i)
            tt_text_printf(out, "%s\t%s\t%s\n", settings->models[i]->name,
                           tt_cluster_pool_name(settings, placement->homes[i]),
                           tt_cluster_pool_name(settings, is_begun ? placement->others[i]
                                                                   : placement->homes[i]));
}

static int32_t find_model(const struct tt_cluster_settings *settings, const char *name) {
    for (int32_t i = 0; i < settings->model_count; i++)
        if (tt_cluster_group(settings, (uint16_t)i) == i &&
            strcmp(settings->models[i]->name, name) == 0)
            return i;
    return -1;
}

static enum tt_err read_model(char *line, const struct tt_cluster_settings *settings,
                              uint16_t *homes, struct tt_text *note, struct tt_error *why) {
    char *from = strchr(line, '\t');
    char *to = from ? strchr(from + 1, '\t') : NULL;
    if (!to || strchr(to + 1, '\t'))
        return tt_fail(TT_ERR_INVALID, why, "'%.100s' is not MODEL<tab>FROM<tab>TO", line);
    *from = *to = '\0';
    int32_t model = find_model(settings, line);
    int32_t pool = tt_placement_find_pool(settings, from + 1);
    if (model >= 0 && pool >= 0)
        homes[model] = (uint16_t)pool;
    else if (model >= 0)
        tt_text_printf(note, "; pool %.100s is gone, model %.100s lies in %s", from + 1, line,
                       tt_cluster_pool_name(settings, homes[model]));
    return TT_OK;
}

/* The line at *at, which then is at the next one; NULL: the text ends. */
static char *take_line(char **at) {
    char *line = *at, *end = line ? strchr(line, '\n') : NULL;
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

static bool read_number(const char *text, const char *end_text, uint64_t *out_number) {
    char *end;
    *out_number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && strcmp(end, end_text) == 0;
}

static enum tt_err read_all(char *text, struct tt_placement *placement, uint16_t *homes,
                            struct tt_text *note, struct tt_error *why) {
    const struct tt_cluster_settings *settings = placement->settings;
    char *at = text, *epoch = take_line(&at), *head = take_line(&at);
    uint64_t ignored, version;
    bool is_good = head && read_number(epoch, "", &ignored);
    bool is_done = is_good && read_number(head, " done", &version);
    if (!is_good || (!is_done && !read_number(head, " begun", &version)))
        return tt_fail(TT_ERR_INVALID, why,
                       "it does not begin with an epoch and a version that is begun or done");
    if (!is_done)
        tt_text_puts(note, "; a plan was under way and has no effect");
    int32_t number = 3;
    for (char *line; (line = take_line(&at)); number++) {
        enum tt_err err = read_model(line, settings, homes, note, why);
        if (err)
            return tt_fail_in(err, why, "line %" PRId32, number);
    }
    if (*at)
        return tt_fail(TT_ERR_INVALID, why, "line %" PRId32 " has no end", number);
    for (int32_t i = 0; i < settings->model_count; i++)
        homes[i] = homes[tt_cluster_group(settings, (uint16_t)i)];
    bool follows = tt_placement_follow(placement, homes, version);
    tt_assert(follows); /* all these pools are there */
    return TT_OK;
}

enum tt_err tt_placement_record_read(const char *text, struct tt_placement *placement,
                                     struct tt_text *out_note, struct tt_error *why) {
    size_t models = (size_t)placement->settings->model_count;
    uint16_t *homes = calloc(models, sizeof(*homes));
    char *copy = strdup(text);
    enum tt_err err = homes && copy ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (size_t i = 0; !err && i < models; i++)
        homes[i] = placement->homes[i];
    tt_text_clear(out_note);
    if (!err)
        err = read_all(copy, placement, homes, out_note, why);
    free(homes);
    free(copy);
    return err;
}
