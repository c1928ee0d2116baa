extern "C" __global__ void __launch_bounds__(256, 2)
k0_add(const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    __shared__ __align__(16) float all_tile0[1056];
    float* const tile0 = all_tile0;
    #pragma unroll
    for (int iteration2 = 0; iteration2 < 4; ++iteration2) {
        const int e_1 = lane + iteration2 * 256;
        const int v3 = (e_1 / 32);
        const int v4 = ((task % 3) * 32);
        const int v5 = (v4 + v3);
        const int v6 = (e_1 % 32);
        const int v7 = ((task / 3) * 32);
        const int v8 = (v7 + v6);
        if (((bool)((v8 < 127) & (v5 < 65)))) {
            const float v9 = x0[((v5 * 127) + v8)];
            tile0[((v3 * 33) + v6)] = v9;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int iteration11 = 0; iteration11 < 4; ++iteration11) {
        const int e_10 = lane + iteration11 * 256;
        const int v12 = (e_10 / 32);
        const int v13 = ((task / 3) * 32);
        const int v14 = (v13 + v12);
        const int v15 = (e_10 % 32);
        const int v16 = ((task % 3) * 32);
        const int v17 = (v16 + v15);
        if (((bool)((v17 < 65) & (v14 < 127)))) {
            const float v18 = tile0[((v15 * 33) + v12)];
            float t0_19 = (v18 + 1.0f);
            b0[((v14 * 65) + v17)] = t0_19;
        }
    }
}
