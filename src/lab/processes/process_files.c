/* The folder of a cluster of processes: models, the description of the cluster, and its ports. */
#include "base/instant.h"
#include "lab/processes/process_cluster.h"
#include "profile/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONTROL };

/* The defaults of a cluster in slow motion. At least so wide that a pause of a machine whose few
 * cores many processes share makes no node suspected. */
static const struct {
    const char *name;
    double usual, least, most;
} times[] = {
    [CONTROL] = {"control-us", 100, 1000, 1000000},
    {"silence-ms", 20, 2000, 60000},
    {"overdue-ms", 25, 2000, 60000},
    {"fetch-ms", 50, 4000, 60000},
    {"patience-ms", 1000, 5000, 60000},
    {"grace-ms", 1000, 10000, 60000},
    {"vacancy-ms", 10000, 60000, 600000},
};

/* After an error nothing is written, and it is returned. */
static enum tt_err write_file(const struct tt_process_cluster *self, enum tt_err err,
                              const char *name, struct tt_text *take_text, struct tt_error *why) {
    char path[TT_PROCESS_PATH_BYTES];
    if (!err && take_text->failed)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!err)
        err = tt_text_write_file(tt_process_path(self, name, path), take_text, why);
    tt_text_fini(take_text);
    return err;
}

static enum tt_err make_folder(const struct tt_process_cluster *self, const char *name,
                               struct tt_error *why) {
    char path[TT_PROCESS_PATH_BYTES];
    if (mkdir(tt_process_path(self, name, path), 0700) == 0)
        return TT_OK;
    return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
}

/* ---- models ---- */

static bool has_lengths(const struct tt_profile *profile) {
    return profile->length_count > 1 || profile->lengths[0] > 0;
}

static void print_point(const struct tt_profile *profile, int32_t rows, int32_t length,
                        struct tt_text *out) {
    int32_t demand_ppm = tt_profile_demand(profile, rows, length);
    tt_text_printf(out, "point { batch: %d length: %d latency_ns: %" PRId64, rows, length,
                   tt_profile_latency(profile, rows, length));
    if (demand_ppm < TT_DEMAND_WHOLE)
        tt_text_printf(out, " demand: %g", (double)demand_ppm / TT_DEMAND_WHOLE);
    tt_text_puts(out, " }\n");
}

static void print_points(const struct tt_process_model *model, const struct tt_profile *profile,
                         struct tt_text *out) {
    for (int32_t i = 0; i < profile->length_count; i++)
        for (int32_t rows = 1; rows <= model->max_batch; rows++)
            print_point(profile, rows, profile->lengths[i], out);
}

static void print_inside(const struct tt_process_inside *inside, struct tt_text *out) {
    tt_text_printf(out, "policy { name: \"%s\"", inside->policy);
    for (int32_t i = 0; i < inside->option_count; i++)
        tt_text_printf(out, " option { key: \"%s\" value: \"%s\" }", inside->options[i].key,
                       inside->options[i].value);
    tt_text_puts(out, " }\ndevice { }\n");
}

static enum tt_err write_model(const struct tt_process_cluster *self,
                               const struct tt_process_model *model,
                               const struct tt_process_inside *inside, struct tt_error *why) {
    char folder[TT_PROCESS_PATH_BYTES / 2], name[TT_PROCESS_PATH_BYTES];
    struct tt_text text;
    int length = snprintf(folder, sizeof(folder), "models/%s", model->name);
    if (length >= (int)sizeof(folder) || strchr(model->name, '/'))
        return tt_fail(TT_ERR_INVALID, why, "'%.100s' cannot be a model's name in a repository",
                       model->name);
    enum tt_err err = make_folder(self, folder, why);
    snprintf(name, sizeof(name), "%s/1", folder);
    if (!err)
        err = make_folder(self, name, why);
    tt_text_init(&text);
    tt_text_printf(&text,
                   "backend: \"emulated\"\nmax_batch_size: %d\n"
                   "input { name: \"x\" data_type: TYPE_INT32 dims: %d }\n"
                   "output { name: \"y\" data_type: TYPE_INT32 dims: 1 }\n",
                   model->max_batch, has_lengths(model->profile) ? -1 : 1);
    snprintf(name, sizeof(name), "%s/config.pbtxt", folder);
    err = write_file(self, err, name, &text, why);
    tt_text_init(&text);
    if (model->slo_ns != TT_NEVER)
        tt_text_printf(&text, "slo_ms: %.6f\n", (double)model->slo_ns / (double)TT_MS);
    if (has_lengths(model->profile))
        tt_text_puts(&text, "length { pad: true }\n"); /* the longest of a batch counts */
    if (inside->policy)
        print_inside(inside, &text);
    snprintf(name, sizeof(name), "%s/tutti.pbtxt", folder);
    err = write_file(self, err, name, &text, why);
    tt_text_init(&text);
    print_points(model, model->profile, &text);
    for (int32_t s = 0; s < model->step_count; s++) {
        tt_text_printf(&text, "step {\nname: \"step %d\"\n", s);
        print_points(model, model->steps[s].profile, &text);
        tt_text_puts(&text, "}\n");
    }
    snprintf(name, sizeof(name), "%s/profile.pbtxt", folder);
    return write_file(self, err, name, &text, why);
}

/* ---- nodes ---- */

/* A port that the system gives to no other socket: this one is bound and never listens, and a node
 * that sets SO_REUSEADDR, as ours do, listens there. */
static enum tt_err reserve_port(struct tt_process_cluster *self, int32_t *out_port,
                                struct tt_error *why) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(address);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        self->reserved[self->reserved_count++] = fd;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, (const struct sockaddr *)&address, bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return tt_fail(TT_ERR_IO, why, "no port of the loopback can be had: %s", strerror(errno));
    *out_port = ntohs(address.sin_port);
    return TT_OK;
}

static enum tt_err put_node(struct tt_process_cluster *self, const char *role, int32_t number,
                            int32_t devices, const struct tt_process_inside *inside,
                            struct tt_text *out, struct tt_error *why) {
    int32_t port = 0;
    enum tt_err err = reserve_port(self, &port, why);
    if (err)
        return err;
    tt_text_printf(out, "%s %c%d 127.0.0.1:%d", role, role[0], number, port);
    if (devices > 0)
        tt_text_printf(out, " devices=%d", devices);
    if (devices > 0 && inside->policy)
        tt_text_printf(out, " executors=%d grants=%d", inside->executors, inside->grants);
    tt_text_puts(out, "\n");
    return TT_OK;
}

static enum tt_err write_nodes(struct tt_process_cluster *self,
                               const struct tt_process_cluster_options *options,
                               struct tt_error *why) {
    struct tt_text text;
    char path[TT_PROCESS_PATH_BYTES];
    tt_text_init(&text);
    for (size_t i = 0; i < TT_COUNT(times); i++)
        if (options->control_ns == 0 || i != CONTROL)
            tt_text_printf(
                &text, "%s %.0f\n", times[i].name,
                fmin(fmax(times[i].usual * options->slower, times[i].least), times[i].most));
    if (options->control_ns > 0)
        tt_text_printf(&text, "%s %" PRId64 "\n", times[CONTROL].name,
                       tt_instant_max(options->control_ns / TT_US, 1));
    const struct tt_process_inside *inside = &options->inside;
    enum tt_err err = put_node(self, "scheduler", 1, 0, inside, &text, why);
    for (int32_t i = 1; !err && i <= options->frontends; i++)
        err = put_node(self, "frontend", i, 0, inside, &text, why);
    for (int32_t i = 1; !err && i <= options->backends; i++) {
        bool has_more = i <= options->devices % options->backends;
        err = put_node(self, "backend", i, options->devices / options->backends + has_more, inside,
                       &text, why);
    }
    err = write_file(self, err, "nodes", &text, why);
    return err ? err : tt_cluster_file_read(tt_process_path(self, "nodes", path), &self->file, why);
}

enum tt_err tt_process_files_write(struct tt_process_cluster *self,
                                   const struct tt_process_cluster_options *options,
                                   struct tt_error *why) {
    enum tt_err err = tt_machine_scratch(self->folder, sizeof(self->folder) / 2, why);
    if (!err)
        err = make_folder(self, "models", why);
    for (int32_t m = 0; !err && m < options->model_count; m++)
        err = write_model(self, &options->models[m], &options->inside, why);
    return err ? err : write_nodes(self, options, why);
}
