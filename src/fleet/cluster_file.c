#include "fleet/cluster_file.h"

#include "base/array.h"
#include "base/fnv.h"
#include "base/instant.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FILE_BYTES = 1 << 20,
    MAX_WORDS = 7,
    MAX_DEVICES = 4096,
    MAX_MEMORY_MIB = 1 << 26,
    MAX_GRANTS = 64,
    MAX_TIME = 3600000
};

static const char *const role_names[] = {[TT_ROLE_FRONTEND] = "frontend",
                                         [TT_ROLE_SCHEDULER] = "scheduler",
                                         [TT_ROLE_BACKEND] = "backend"};

static const struct {
    const char *name;
    size_t offset;
    int64_t unit_ns;
    bool is_newer; /* nodes of earlier releases do not know it */
} time_names[] = {
    {"silence-ms", offsetof(struct tt_cluster_times, silence_ns), TT_MS},
    {"overdue-ms", offsetof(struct tt_cluster_times, overdue_ns), TT_MS},
    {"fetch-ms", offsetof(struct tt_cluster_times, fetch_ns), TT_MS},
    {"patience-ms", offsetof(struct tt_cluster_times, patience_ns), TT_MS},
    {"grace-ms", offsetof(struct tt_cluster_times, grace_ns), TT_MS},
    {"control-us", offsetof(struct tt_cluster_times, control_ns), TT_US},
    {"plan-every-s", offsetof(struct tt_cluster_times, plan_every_ns), TT_S},
    {"plan-load-s", offsetof(struct tt_cluster_times, plan_load_ns), TT_S},
    {"plan-moves", offsetof(struct tt_cluster_times, plan_moves), 1},
    {"vacancy-ms", offsetof(struct tt_cluster_times, vacancy_ns), TT_MS, true},
};

const char *tt_cluster_role_name(enum tt_cluster_role role) { return role_names[role]; }

bool tt_cluster_role_parse(const char *name, enum tt_cluster_role *out_role) {
    for (size_t i = 0; i < TT_COUNT(role_names); i++)
        if (strcmp(name, role_names[i]) == 0) {
            *out_role = (enum tt_cluster_role)i;
            return true;
        }
    return false;
}

/* A decimal number in lowest..highest; -1: `text` is none. */
static int64_t read_number(const char *text, int64_t lowest, int64_t highest) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool is_number = *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
    return is_number && value >= lowest && value <= highest ? value : -1;
}

/* "HOST:PORT", where HOST may be an IPv6 address in brackets. */
static enum tt_err read_address(char *text, struct tt_cluster_place *out, struct tt_error *why) {
    char *colon = strrchr(text, ':');
    int64_t tcp_port = colon ? read_number(colon + 1, 1, 65535) : -1;
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (tcp_port < 0 || length == 0 || length >= sizeof(out->host))
        return tt_fail(TT_ERR_INVALID, why,
                       "'%.100s' is no address; it would be HOST:PORT, with a port in 1 to 65535",
                       text);
    *colon = '\0';
    bool in_brackets = length > 2 && text[0] == '[' && text[length - 1] == ']';
    if (in_brackets)
        text[length - 1] = '\0';
    snprintf(out->host, sizeof(out->host), "%s", text + in_brackets);
    out->tcp_port = (int32_t)tcp_port;
    return TT_OK;
}

static bool is_name(const char *text) {
    size_t length = strlen(text);
    return length > 0 && length < TT_CLUSTER_NAME_BYTES &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
               length;
}

/* "devices=N", "executors=N", "grants=N", "pool=NAME" or "memory-mib=N". */
static bool read_extra(const char *word, struct tt_cluster_place *place) {
    static const char devices[] = "devices=", executors[] = "executors=", grants[] = "grants=",
                      pool[] = "pool=", memory[] = "memory-mib=";
    if (strncmp(word, memory, sizeof(memory) - 1) == 0) {
        place->memory_mib = read_number(word + sizeof(memory) - 1, 1, MAX_MEMORY_MIB);
        return place->memory_mib > 0;
    }
    if (strncmp(word, devices, sizeof(devices) - 1) == 0) {
        place->devices = (int32_t)read_number(word + sizeof(devices) - 1, 1, MAX_DEVICES);
        return place->devices > 0;
    }
    if (strncmp(word, executors, sizeof(executors) - 1) == 0) {
        place->executors = (int32_t)read_number(word + sizeof(executors) - 1, 1, MAX_GRANTS);
        return place->executors > 0;
    }
    if (strncmp(word, grants, sizeof(grants) - 1) == 0) {
        place->grants = (int32_t)read_number(word + sizeof(grants) - 1, 1, MAX_GRANTS);
        return place->grants > 0;
    }
    if (strncmp(word, pool, sizeof(pool) - 1) != 0 || !is_name(word + sizeof(pool) - 1))
        return false;
    snprintf(place->pool, sizeof(place->pool), "%s", word + sizeof(pool) - 1);
    return true;
}

static enum tt_err read_extras(char *const *words, int32_t count, struct tt_cluster_place *place,
                               struct tt_error *why) {
    bool is_backend = place->role == TT_ROLE_BACKEND;
    place->devices = place->executors = place->grants = is_backend;
    if (is_backend)
        snprintf(place->pool, sizeof(place->pool), "default");
    for (int32_t i = 3; i < count; i++)
        if (!is_backend || !read_extra(words[i], place))
            return tt_fail(TT_ERR_INVALID, why,
                           "'%.100s' after the address; only a backend may have devices=N there, "
                           "with N in 1 to %d, executors=N and grants=N with N in 1 to %d, "
                           "pool=NAME, and memory-mib=N, with N in 1 to %d",
                           words[i], MAX_DEVICES, MAX_GRANTS, MAX_MEMORY_MIB);
    if (place->devices * place->executors > MAX_DEVICES)
        return tt_fail(TT_ERR_INVALID, why, "devices=%d with executors=%d are %d; at most %d",
                       place->devices, place->executors, place->devices * place->executors,
                       MAX_DEVICES);
    return place->devices * place->grants <= MAX_DEVICES
               ? TT_OK
               : tt_fail(TT_ERR_INVALID, why, "devices=%d with grants=%d are %d; at most %d",
                         place->devices, place->grants, place->devices * place->grants,
                         MAX_DEVICES);
}

/* Each node listens at its own address. */
static enum tt_err check_address(const struct tt_cluster_file *self,
                                 const struct tt_cluster_place *place, struct tt_error *why) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->places[i].tcp_port == place->tcp_port &&
            strcmp(self->places[i].host, place->host) == 0)
            return tt_fail(TT_ERR_INVALID, why, "'%s' has the address of '%s'", place->name,
                           self->places[i].name);
    return TT_OK;
}

static enum tt_err read_place(struct tt_cluster_file *self, enum tt_cluster_role role,
                              char *const *words, int32_t count, struct tt_error *why) {
    if (count < 3)
        return tt_fail(TT_ERR_INVALID, why, "a node is: %s NAME HOST:PORT", words[0]);
    if (!is_name(words[1]))
        return tt_fail(TT_ERR_INVALID, why,
                       "'%.100s' is no name; a name has up to %d letters, digits, '-', '_' and '.'",
                       words[1], TT_CLUSTER_NAME_BYTES - 1);
    if (tt_cluster_file_find(self, words[1]) >= 0)
        return tt_fail(TT_ERR_INVALID, why, "the name '%s' is given twice", words[1]);
    if (self->count == TT_CLUSTER_MAX_NODES)
        return tt_fail(TT_ERR_INVALID, why, "more than %d nodes", TT_CLUSTER_MAX_NODES);
    if (!TT_ARRAY_RESERVE(self->places, &self->capacity, self->count + 1))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    struct tt_cluster_place *place = &self->places[self->count];
    *place = (struct tt_cluster_place){.role = role};
    snprintf(place->name, sizeof(place->name), "%s", words[1]);
    enum tt_err err = read_address(words[2], place, why);
    if (!err)
        err = check_address(self, place, why);
    if (!err)
        err = read_extras(words, count, place, why);
    self->count += err == TT_OK;
    return err;
}

static enum tt_err read_time(struct tt_cluster_file *self, char *const *words, int32_t count,
                             struct tt_error *why) {
    for (size_t i = 0; i < TT_COUNT(time_names); i++) {
        if (strcmp(words[0], time_names[i].name) != 0)
            continue;
        int64_t value = count == 2 ? read_number(words[1], 1, MAX_TIME) : -1;
        if (value < 0)
            return tt_fail(TT_ERR_INVALID, why, "%s needs one number in 1 to %d", words[0],
                           MAX_TIME);
        int64_t *field = (int64_t *)(void *)((char *)&self->times + time_names[i].offset);
        *field = value * time_names[i].unit_ns;
        return TT_OK;
    }
    return tt_fail(
        TT_ERR_INVALID, why,
        "'%.100s'; a line begins with frontend, scheduler, backend, silence-ms, "
        "overdue-ms, fetch-ms, patience-ms, grace-ms, vacancy-ms, control-us, plan-every-s, "
        "plan-load-s or plan-moves",
        words[0]);
}

static enum tt_err read_line(struct tt_cluster_file *self, char *line, struct tt_error *why) {
    char *words[MAX_WORDS], *rest = NULL;
    int32_t count = 0;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        if (count == MAX_WORDS)
            return tt_fail(TT_ERR_INVALID, why, "the line has more than %d words", MAX_WORDS);
        words[count++] = word;
    }
    if (count == 0)
        return TT_OK;
    enum tt_cluster_role role;
    return tt_cluster_role_parse(words[0], &role) ? read_place(self, role, words, count, why)
                                                  : read_time(self, words, count, why);
}

/* A pool has the number of the first backend that names it, without gaps. */
static void number_pools(struct tt_cluster_file *self) {
    uint16_t count = 0;
    for (int32_t i = 0; i < self->count; i++) {
        struct tt_cluster_place *place = &self->places[i];
        int32_t first = 0;
        while (strcmp(self->places[first].pool, place->pool) != 0)
            first++;
        if (place->role == TT_ROLE_BACKEND)
            place->pool_number = first == i ? count++ : self->places[first].pool_number;
    }
}

static void digest_number(uint64_t *self, int64_t number) {
    char text[32];
    int length = snprintf(text, sizeof(text), "%" PRId64 ";", number);
    *self = tt_fnv_add(*self, text, (size_t)length);
}

static uint64_t digest_of(const struct tt_cluster_file *self) {
    uint64_t sum = TT_FNV_START;
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_cluster_place *place = &self->places[i];
        sum = tt_fnv_add(sum, place->name, strlen(place->name) + 1);
        sum = tt_fnv_add(sum, place->host, strlen(place->host) + 1);
        digest_number(&sum, place->tcp_port);
        digest_number(&sum, place->role);
        digest_number(&sum, place->devices);
        if (place->grants > 1) /* else as releases that do not know it */
            digest_number(&sum, place->grants);
        if (place->executors > 1)
            digest_number(&sum, -place->executors);
        sum = tt_fnv_add(sum, place->pool, strlen(place->pool) + 1);
        if (place->memory_mib > 0) /* else the digest is that of releases that do not know it */
            digest_number(&sum, place->memory_mib);
    }
    for (size_t i = 0; i < TT_COUNT(time_names); i++) {
        const char *times = (const char *)&self->times + time_names[i].offset;
        int64_t value = *(const int64_t *)(const void *)times;
        if (value > 0 || !time_names[i].is_newer) /* else as releases that do not know it */
            digest_number(&sum, value);
    }
    return sum;
}

static enum tt_err check_roles(const struct tt_cluster_file *self, struct tt_error *why) {
    for (size_t role = 0; role < TT_COUNT(role_names); role++) {
        bool is_there = false;
        for (int32_t i = 0; i < self->count; i++)
            is_there |= self->places[i].role == (enum tt_cluster_role)role;
        if (!is_there)
            return tt_fail(TT_ERR_INVALID, why,
                           "there is no %s; a cluster has at least one frontend, one scheduler and "
                           "one backend",
                           role_names[role]);
    }
    return TT_OK;
}

enum tt_err tt_cluster_file_parse(const char *path, const char *text,
                                  struct tt_cluster_file *out_file, struct tt_error *why) {
    struct tt_cluster_file self = {0};
    char *copy = strdup(text), *at = copy;
    enum tt_err err = copy ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t number = 1; !err && at; number++) {
        char *end = strchr(at, '\n');
        if (end)
            *end = '\0';
        err = read_line(&self, at, why);
        if (err)
            tt_fail_in(err, why, "%s:%d", path, number);
        at = end ? end + 1 : NULL;
    }
    free(copy);
    if (!err) {
        err = check_roles(&self, why);
        if (err)
            tt_fail_in(err, why, "%s", path);
    }
    if (err) {
        tt_cluster_file_fini(&self);
        return err;
    }
    number_pools(&self);
    self.digest = digest_of(&self);
    *out_file = self;
    return TT_OK;
}

enum tt_err tt_cluster_file_read(const char *path, struct tt_cluster_file *out_file,
                                 struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_text_read_file(path, MAX_FILE_BYTES, &text, why);
    if (!err)
        err = tt_cluster_file_parse(path, tt_text_string(&text), out_file, why);
    tt_text_fini(&text);
    return err;
}

void tt_cluster_file_fini(struct tt_cluster_file *self) {
    free(self->places);
    free(self->plan);
    *self = (struct tt_cluster_file){0};
}

int32_t tt_cluster_file_grants(const struct tt_cluster_file *self) {
    int32_t most = 1;
    for (int32_t i = 0; i < self->count; i++)
        if (self->places[i].grants > most)
            most = self->places[i].grants;
    return most;
}

int32_t tt_cluster_file_find(const struct tt_cluster_file *self, const char *name) {
    for (int32_t i = 0; i < self->count; i++)
        if (strcmp(self->places[i].name, name) == 0)
            return i;
    return -1;
}

/* Returns what getaddrinfo() does. */
static int find_address(const struct tt_cluster_place *place, int flags,
                        struct sockaddr_storage *out_address, socklen_t *out_bytes) {
    char service[16];
    snprintf(service, sizeof(service), "%d", place->tcp_port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found;
    int problem = getaddrinfo(place->host, service, &hints, &found);
    if (problem)
        return problem;
    memcpy(out_address, found->ai_addr, found->ai_addrlen);
    *out_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

enum tt_err tt_cluster_place_resolve(const struct tt_cluster_place *place,
                                     struct sockaddr_storage *out_address, socklen_t *out_bytes,
                                     struct tt_error *why) {
    int problem = find_address(place, 0, out_address, out_bytes);
    return problem ? tt_fail(TT_ERR_INVALID, why, "node %s: no address of \"%s\": %s", place->name,
                             place->host, gai_strerror(problem))
                   : TT_OK;
}

bool tt_cluster_place_read(const struct tt_cluster_place *place,
                           struct sockaddr_storage *out_address) {
    socklen_t bytes;
    return find_address(place, AI_NUMERICHOST, out_address, &bytes) == 0;
}
