// Prism judges requests by vendors' own descriptions, one server for each file of the arguments. It prints their
// addresses in the order of the files, and ends with its input.
const cli = require.resolve('@stoplight/prism-cli/package.json', { paths: [process.cwd()] })
const from = name => require(require.resolve(name, { paths: [cli] }))
const { createLogger } = from('@stoplight/prism-core')
const { getHttpOperationsFromSpec } = from('@stoplight/prism-http')
const { createServer } = from('@stoplight/prism-http-server')

process.stdin.resume().on('end', () => process.exit())

const logger = createLogger('prism', { enabled: false })
// The options of `prism mock --errors`, but for Prism's judgement of its own answers.
const config = { isProxy: false, validateRequest: true, validateResponse: false, checkSecurity: true, errors: true,
  upstreamProxy: undefined, mock: { dynamic: false } }

async function main() {
  const addresses = []
  for (const file of process.argv.slice(2)) {
    const operations = await getHttpOperationsFromSpec(file)
    const server = createServer(operations, { cors: false, config, components: { logger } })
    addresses.push(await server.listen(0, '127.0.0.1'))
  }
  console.log('oracle ' + addresses.join(' '))
}
main()
