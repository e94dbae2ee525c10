/*
 * The least that a timed benchmark of random reads can do, as a yardstick for the engine's hot loop: one clock reading
 * and one pread an operation, a cheap random block, and minimum, maximum and sum of the times.
 *
 *     cc -O2 -o psync_loop psync_loop.c
 *     psync_loop FILE BLOCK_SIZE OPERATIONS SEED
 *
 * prints nanoseconds an operation, minimum and maximum. The file must be larger than a block.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t start, last, least = UINT64_MAX, most = 0, sum = 0, random;
	uint64_t block_size, operations, blocks;
	struct stat attributes;
	void *buffer;
	int file;

	if (argc != 5) {
		fprintf(stderr, "usage: psync_loop FILE BLOCK_SIZE OPERATIONS SEED\n");
		return 2;
	}
	block_size = strtoull(argv[2], NULL, 10);
	operations = strtoull(argv[3], NULL, 10);
	random = strtoull(argv[4], NULL, 10) | 1;
	file = open(argv[1], O_RDONLY);
	if (file < 0 || fstat(file, &attributes) < 0) {
		perror(argv[1]);
		return 1;
	}
	blocks = block_size ? (uint64_t)attributes.st_size / block_size : 0;
	if (!blocks || !operations || posix_memalign(&buffer, 4096, block_size)) {
		fprintf(stderr, "psync_loop: nothing to do\n");
		return 2;
	}
	memset(buffer, 1, block_size);

	start = last = now_ns();
	for (uint64_t i = 0; i < operations; i++) {
		uint64_t time, block;

		/* xorshift64 (Marsaglia 2003), scaled to the number of blocks without a division. */
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		block = (uint64_t)(((unsigned __int128)random * blocks) >> 64);
		if (pread(file, buffer, block_size, (off_t)(block * block_size)) != (ssize_t)block_size) {
			perror("pread");
			return 1;
		}
		time = now_ns();
		if (time - last < least)
			least = time - last;
		if (time - last > most)
			most = time - last;
		sum += time - last;
		last = time;
	}
	printf("%.3f %" PRIu64 " %" PRIu64 "\n", (double)(last - start) / (double)operations, least, most);
	return sum == last - start ? 0 : 1;
}
