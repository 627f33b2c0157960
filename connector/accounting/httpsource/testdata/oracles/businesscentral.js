// An OData service on SQLite, made by SAP CAP from businesscentral.cds. It prints its address, and ends with its input.
const path = require('node:path')
const from = (name, ...at) => require(require.resolve(name, { paths: [...at, process.cwd()] }))
const cds = from('@sap/cds')
const express = from('express', cds.home)

process.stdin.resume().on('end', () => process.exit())
cds.env.requires.db = { impl: '@cap-js/sqlite', credentials: { url: ':memory:' } }
cds.env.server.body_parser = { limit: '10mb' } // for all customers at once
cds.env.requires.auth = { kind: 'dummy', impl: path.join(cds.home, 'lib/srv/middlewares/auth/dummy-auth') }

async function main() {
  const app = express()
  const model = await cds.load(path.join(__dirname, 'businesscentral.cds'))
  cds.model = cds.compile.for.nodejs(model)
  cds.db = await cds.connect.to('db')
  await cds.deploy(model).to(cds.db)
  await cds.serve('all').from(model).in(app)
  // CAP has pages of its own size, and does not read this preference.
  cds.services.businesscentral.before('READ', 'customers', req => {
    const asked = /odata\.maxpagesize=(\d+)/.exec(req.headers.prefer)
    if (asked && req.query.SELECT.limit) req.query.SELECT.limit.rows = { val: Number(asked[1]) }
  })
  const server = app.listen(0, '127.0.0.1', () => console.log('oracle http://127.0.0.1:' + server.address().port))
}
main()
